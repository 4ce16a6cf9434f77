//! JSON patch (RFC 6902).

use json_patch::PatchOperation;
use serde_json::Value;

use super::PatchError;
use crate::fields::{MOST_NESTED, nesting};

/// Patches with more operations are refused.
const MAX_OPERATIONS: usize = 10_000;

/// So many bytes may be copied, as many as a request may have: copies of copies double what is there.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Applies a JSON patch.
///
/// # Errors
///
/// 400 if `patch` is no list of operations or its result nests too deeply, 413 if it is too long, 422 if an operation fails or too much
/// is copied.
pub fn json(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(operations) = patch.as_array() else {
        return Err(PatchError::undecodable(patch, "[]handlers.jsonPatchOp"));
    };
    if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(PatchError::undecodable(odd, "handlers.jsonPatchOp"));
    }
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(PatchError { status: 413, reason: "RequestEntityTooLarge", message });
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|_| PatchError::unprocessable())?;
    let mut result = doc.clone();
    let mut copied = 0;
    for operation in operations.iter() {
        check_growth(&result, operation, &mut copied)?;
        json_patch::patch_unsafe(&mut result, std::slice::from_ref(operation))
            .map_err(|_| PatchError::unprocessable())?;
    }
    Ok(result)
}

/// A small patch must not make a value that is too large to hold, or too deep to walk through.
fn check_growth(document: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), PatchError> {
    let added = match operation {
        PatchOperation::Add(add) => Some(&add.value),
        PatchOperation::Replace(replace) => Some(&replace.value),
        PatchOperation::Move(from) => document.pointer(from.from.as_str()),
        PatchOperation::Copy(from) => {
            let source = document.pointer(from.from.as_str());
            *copied += source.map_or(0, |source| source.to_string().len());
            if *copied > MOST_COPIED {
                return Err(PatchError::unprocessable());
            }
            source
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    };
    let Some(added) = added else { return Ok(()) };
    if operation.path().count() + nesting(added) > MOST_NESTED {
        let message =
            format!("the patch nests values more than {MOST_NESTED} levels deep: put them elsewhere");
        return Err(PatchError::bad_request(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn operations_run_in_order() {
        let doc = value!({"metadata": {}, "data": {"k": "v"}});
        let patch = value!([
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "replace", "path": "/data/k", "value": "w"},
            {"op": "add", "path": "/metadata/labels", "value": {"x/y": "1"}},
            {"op": "remove", "path": "/metadata/labels/x~1y"},
        ]);
        assert_eq!(json(&doc, &patch), Ok(value!({"metadata": {"labels": {}}, "data": {"k": "w"}})));
    }

    #[test]
    fn failures_have_the_status_of_kubernetes() {
        let doc = value!({"data": {"k": "v"}});
        for patch in [
            value!([{"op": "test", "path": "/data/k", "value": "z"}]),
            value!([{"op": "remove", "path": "/data/nope"}]),
            value!([{"op": "frobnicate", "path": "/data/k"}]),
        ] {
            let error = json(&doc, &patch).unwrap_err();
            assert_eq!((error.status, error.reason), (422, "Invalid"), "{patch}");
        }
        let error = json(&doc, &value!({"op": "x"})).unwrap_err();
        let expected = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        assert_eq!((error.status, error.message.as_str()), (400, expected));
        let many = Value::Array(vec![value!({"op": "remove", "path": "/x"}); MAX_OPERATIONS + 1]);
        assert_eq!(json(&doc, &many).unwrap_err().status, 413);
    }

    #[test]
    fn copies_of_copies_end_soon() {
        let doc = value!({"data": {"a": "x".repeat(1024)}});
        let double = value!({"op": "copy", "from": "/data", "path": "/data/more"});
        let times = |count| Value::Array(vec![double.clone(); count]);
        assert!(json(&doc, &times(8)).is_ok());
        assert_eq!(json(&doc, &times(9999)).unwrap_err().status, 422);
        let many = value!({"op": "copy", "from": "/data/a", "path": "/data/b"});
        assert!(json(&doc, &Value::Array(vec![many.clone(); 3000])).is_ok());
        assert_eq!(json(&doc, &Value::Array(vec![many; 3100])).unwrap_err().status, 422);
    }

    #[test]
    fn operations_do_not_pile_values_into_each_other() {
        let doc = value!({"data": {}, "other": {"a": [[[]]]}});
        let path = |depth: usize| format!("/data{}", "/a".repeat(depth));
        let pile = |depth: usize| {
            (1..=depth)
                .map(|depth| value!({"op": "add", "path": path(depth), "value": {}}))
                .collect::<Vec<_>>()
        };
        assert!(json(&doc, &Value::Array(pile(MOST_NESTED - 2))).is_ok());
        assert_eq!(json(&doc, &Value::Array(pile(5000))).unwrap_err().status, 400);
        for operation in ["move", "copy"] {
            let mut patch = pile(MOST_NESTED - 4);
            patch.push(value!({"op": operation, "from": "/other", "path": path(MOST_NESTED - 3)}));
            assert_eq!(json(&doc, &Value::Array(patch)).unwrap_err().status, 400, "{operation}");
        }
    }
}
