//! Cases that are not answered as recorded yet.

/// Name and reason.
pub(crate) const PENDING: [(&str, &str); 6] = [
    (
        "controllers/deployment makes a replica set and pods",
        "the deployment controller is not part of the server",
    ),
    ("controllers/unschedulable node gets the taint", "the node controller is not part of the server"),
    ("controllers/ready node loses the not-ready taint", "the node controller is not part of the server"),
    ("controllers/memory pressure becomes a taint", "the node controller is not part of the server"),
    ("controllers/budget status: no pods", "the disruption controller is not part of the server"),
    (
        "controllers/budget status: bare pods count with minAvailable as a number",
        "the disruption controller is not part of the server",
    ),
];
