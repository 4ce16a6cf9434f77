//! What objects carry that no question here is about: it is dropped before they are kept.

use k8s_openapi::api::core::v1::Node;

/// Who owns which field is half of an object.
pub(crate) fn object<K: kube::Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// The images that are on a node are many, and long.
pub(crate) fn node(node: &mut Node) {
    object(node);
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}
