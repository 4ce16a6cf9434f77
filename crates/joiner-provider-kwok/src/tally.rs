//! Remarks on things that load but may not mean what their author meant.

use crate::file::Availability;

/// Counts of things that are worth a note, each with the type where it was seen first.
#[derive(Default)]
pub(crate) struct Tally {
    pub unavailable: Count,
    pub flat: Count,
    pub without_zone: Count,
    pub without_capacity_type: Count,
    pub expanded: Count,
    pub reserved_without_capacity: Count,
    pub reservation_ignored: Count,
    pub free: Count,
}

#[derive(Default)]
pub(crate) struct Count {
    offerings: usize,
    first: String,
}

impl Count {
    /// Counts one more offering.
    pub fn add(&mut self, type_name: &str) {
        if self.offerings == 0 {
            type_name.clone_into(&mut self.first);
        }
        self.offerings += 1;
    }
}

impl Tally {
    /// One remark for each thing that was seen at all.
    pub fn notes(self, availability: Availability) -> Vec<String> {
        let unavailable = match availability {
            Availability::Always => "`Available: false` is ignored, as the KWOK provider does",
            Availability::AsWritten => "`Available: false`, so not offered",
        };
        [
            (self.flat, "older flat form, `capacityType` and `zone` are taken as requirements"),
            (self.unavailable, unavailable),
            (self.expanded, "several zones or capacity types, each combination became an offering"),
            (self.without_zone, "no zone, which serves only pods and pools that ask for none"),
            (
                self.without_capacity_type,
                "no capacity type, which serves only pods and pools that ask for none",
            ),
            (
                self.reserved_without_capacity,
                "`reserved` without `ReservationCapacity`, so nothing can be started",
            ),
            (
                self.reservation_ignored,
                "`ReservationCapacity` is ignored because the offering is not `reserved`",
            ),
            (self.free, "price 0, which consolidation cannot tell apart"),
        ]
        .into_iter()
        .filter(|(count, _)| count.offerings > 0)
        .map(|(count, text)| {
            let plural = if count.offerings == 1 { "" } else { "s" };
            format!("{text}: {} offering{plural}, first of type `{}`", count.offerings, count.first)
        })
        .collect()
    }
}
