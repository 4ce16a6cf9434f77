//! The files of the charts, as they were when this program was built.

/// A chart.
#[derive(Debug)]
pub struct Chart {
    /// Its name.
    pub name: &'static str,
    /// Its version, and that of the program it installs.
    pub version: &'static str,
    /// Its values, with the defaults.
    pub values: &'static str,
    /// What values may be.
    pub schema: &'static str,
    /// File names and contents, by name.
    pub templates: &'static [(&'static str, &'static str)],
}

macro_rules! chart {
    ($name:literal, [$($file:literal),* $(,)?]) => {
        Chart {
            name: $name,
            version: env!("CARGO_PKG_VERSION"),
            values: include_str!(concat!("../../../../charts/", $name, "/values.yaml")),
            schema: include_str!(concat!("../../../../charts/", $name, "/values.schema.json")),
            templates: &[$(($file, include_str!(concat!("../../../../charts/", $name, "/templates/", $file)))),*],
        }
    };
}

/// The program: its Deployment, rights and what belongs to them.
pub static JOINER: Chart = chart!(
    "joiner",
    [
        "_helpers.tpl",
        "clusterrole-admin.yaml",
        "clusterrole-providers.yaml",
        "clusterrole.yaml",
        "deployment.yaml",
        "networkpolicy.yaml",
        "poddisruptionbudget.yaml",
        "role-kubelets.yaml",
        "role.yaml",
        "service.yaml",
        "serviceaccount.yaml",
        "servicemonitor.yaml",
    ]
);

/// The definitions of pools, claims and node classes.
pub static JOINER_CRD: Chart = chart!(
    "joiner-crd",
    [
        "capacitybuffers.autoscaling.x-k8s.io.yaml",
        "kwoknodeclasses.karpenter.kwok.sh.yaml",
        "nodeclaims.karpenter.sh.yaml",
        "nodeoverlays.karpenter.sh.yaml",
        "nodepools.karpenter.sh.yaml",
    ]
);
