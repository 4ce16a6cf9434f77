//! Whether somebody plays the kubelets of KWOK nodes already.

use joiner_api::names::KWOK_NODE_MARK;
use joiner_provider::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::leases::{self, Standing};

/// The label of KWOK's own Deployment.
const KWOK_CONTROLLER: &str = "app=kwok-controller";

/// Refuses to play kubelets where a KWOK controller seems to: two of them would take every node from each other. It is told by its Deployment, and by leases of KWOK nodes
/// that somebody holds. What may not be read tells nothing.
///
/// # Errors
/// Somebody plays them: who, and what to do.
pub async fn refuse_if_played(client: &Client, clock: &dyn Clock) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::all(client.clone());
    let found = deployments.list(&ListParams::default().labels(KWOK_CONTROLLER)).await;
    let runs = |of: &Deployment| of.spec.replicas != Some(0);
    if let Some(found) = found.ok().and_then(|found| found.items.into_iter().find(runs)) {
        anyhow::bail!(
            "--simulate-kubelets: the Deployment `{}/{}` is a KWOK controller, which plays the kubelets of this cluster: scale it to 0, or leave the flag out",
            found.namespace().unwrap_or_default(),
            found.name_any()
        );
    }
    let Ok(listed) = leases::all(&Api::<Lease>::namespaced(client.clone(), leases::NAMESPACE)).await else {
        return Ok(());
    };
    let now = clock.now();
    let nodes: Api<Node> = Api::all(client.clone());
    for lease in listed {
        let Standing::Others { holder, .. } = leases::standing(&lease, now) else { continue };
        let name = lease.name_any();
        let node = nodes.get_opt(&name).await.ok().flatten();
        if node.is_some_and(|node| node.annotations().get(KWOK_NODE_MARK).is_some_and(|mark| mark == "fake"))
        {
            anyhow::bail!(
                "--simulate-kubelets: `{holder}` holds the lease of the node `{name}` and so plays its kubelet already: stop that KWOK controller, or leave the flag out"
            );
        }
    }
    Ok(())
}
