//! Families of images, as far as they change what a machine offers.

use joiner_api::quantity::Quantity;

const GIB: i64 = 1 << 30;

/// A family of machine images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023; also taken where a class names none.
    #[default]
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Images of one's own.
    Custom,
    /// Windows Server, by build number.
    Windows(&'static str),
}

/// Names of families in `spec.amiFamily`. Ubuntu was one of them in older versions; nothing is known of its images, as of custom ones.
pub const NAMES: [(&str, Family); 8] = [
    ("AL2", Family::Al2),
    ("AL2023", Family::Al2023),
    ("Bottlerocket", Family::Bottlerocket),
    ("Custom", Family::Custom),
    ("Windows2019", Family::Windows("10.0.17763")),
    ("Windows2022", Family::Windows("10.0.20348")),
    ("Windows2025", Family::Windows("10.0.26100")),
    ("Ubuntu", Family::Custom),
];

impl Family {
    /// The family of a name in `spec.amiFamily`.
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(of, _)| *of == name).map(|(_, family)| *family)
    }

    /// The family of an alias such as `al2023@latest`.
    pub fn of_alias(alias: &str) -> Option<Self> {
        let (name, _) = alias.split_once('@').unwrap_or((alias, ""));
        NAMES.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, family)| *family)
    }

    /// The operating system that an image boots on an architecture, if there is an image for it.
    pub fn os_on(self, architecture: &str) -> Option<&'static str> {
        match self.is_windows() {
            false => Some("linux"),
            true => (architecture == "amd64").then_some("windows"),
        }
    }

    /// Whether it is Windows.
    pub fn is_windows(self) -> bool {
        matches!(self, Self::Windows(_))
    }

    /// The device pods write to.
    pub(crate) fn pod_device(self) -> &'static str {
        match self {
            Self::Bottlerocket => "/dev/xvdb",
            Self::Windows(_) => "/dev/sda1",
            Self::Al2 | Self::Al2023 | Self::Custom => "/dev/xvda",
        }
    }

    /// Size of that device where a class does not say.
    pub(crate) fn usual_disk(self) -> Quantity {
        Quantity::from_bytes(if self.is_windows() { 50 * GIB } else { 20 * GIB })
    }

    /// Whether network interfaces bound the number of pods.
    pub(crate) fn pods_have_addresses(self) -> bool {
        !self.is_windows()
    }

    /// Whether `podsPerCore` counts.
    pub(crate) fn knows_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Whether memory is kept for as many pods as the interfaces could serve, however many may run.
    pub(crate) fn reserves_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }
}
