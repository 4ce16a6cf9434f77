//! Small typed indices. Every table of a snapshot is a vector; these keep one table's index from being used on another.

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its vector.
            #[inline]
            pub fn at(self) -> usize {
                self.0 as usize
            }

            /// The index for a position; tables never reach four billion rows.
            #[inline]
            pub fn new(position: usize) -> Self {
                debug_assert!(position < u32::MAX as usize);
                Self(position as u32)
            }
        }
    };
}

index!(
    /// A label key.
    KeyId
);
index!(
    /// A label value; dense per key, so ids of different keys must not be compared.
    ValueId
);
index!(
    /// A requirement on one key (hash-consed: equal requirements on equal keys share an id).
    RqId
);
index!(
    /// A set of requirements, at most one per key (hash-consed).
    ReqId
);
index!(
    /// A list of taints (hash-consed).
    TaintsId
);
index!(
    /// A list of tolerations (hash-consed).
    TolerationsId
);
index!(
    /// A pool, in the order in which pools are tried.
    PoolIdx
);
index!(
    /// A catalogue of instance types (one per node class).
    CatalogueIdx
);
index!(
    /// An instance type within its catalogue.
    TypeIdx
);
index!(
    /// An offering within its catalogue, numbered by rising price.
    OfferingIdx
);
index!(
    /// A capacity reservation.
    ReservationIdx
);
index!(
    /// An existing node, in the order in which nodes are tried.
    NodeIdx
);
index!(
    /// What selectors see of a pod: its namespace and labels.
    IdentityIdx
);
index!(
    /// All pods that are alike to a scheduler.
    ClassIdx
);
index!(
    /// A pending pod.
    PodIdx
);
index!(
    /// A topology group (spread, affinity or anti-affinity).
    GroupIdx
);
index!(
    /// A persistent volume claim, by identity.
    VolumeIdx
);
index!(
    /// A machine opened in this run.
    MachineIdx
);
