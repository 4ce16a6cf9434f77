//! Taints and tolerations, by Kubernetes' rules.

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Keeps pods away.
    NoSchedule,
    /// Keeps pods away if it can be helped.
    PreferNoSchedule,
    /// Keeps pods away and evicts those there.
    NoExecute,
}

impl Effect {
    /// Kubernetes' spelling.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// Reads Kubernetes' spelling.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }
}

/// A taint of a node or template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Its key.
    pub key: Box<str>,
    /// Its value, often empty.
    pub value: Box<str>,
    /// What it does.
    pub effect: Effect,
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect.text())
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect.text())
        }
    }
}

/// How a toleration's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// Any value.
    Exists,
    /// The same value.
    Equal,
    /// The taint's integer is below the toleration's.
    Lt,
    /// The taint's integer is above the toleration's.
    Gt,
    /// An operator nobody knows: tolerates nothing.
    Unknown,
}

impl TolerationOperator {
    /// Reads Kubernetes' spelling; left out it is `Equal`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Equal" => Some(Self::Equal),
            "Exists" => Some(Self::Exists),
            "Lt" => Some(Self::Lt),
            "Gt" => Some(Self::Gt),
            _ => None,
        }
    }
}

/// A pod's toleration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty matches every key (with `Exists`).
    pub key: Box<str>,
    /// How values are compared.
    pub operator: TolerationOperator,
    /// The value compared with.
    pub value: Box<str>,
    /// `None` matches every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Reads Kubernetes' fields, empty where they are left out. An operator or effect nobody knows makes it tolerate nothing.
    pub fn read(key: &str, operator: &str, value: &str, effect: &str) -> Self {
        let known = Effect::parse(effect);
        let operator = TolerationOperator::parse(operator).filter(|_| effect.is_empty() || known.is_some());
        Self {
            key: key.into(),
            operator: operator.unwrap_or(TolerationOperator::Unknown),
            value: value.into(),
            effect: known,
        }
    }

    /// Whether it tolerates a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        // An empty key with any operator but Exists is invalid in the API; upstream's matcher compares values all the same.
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Lt => self.compare(taint).is_some_and(|o| o == std::cmp::Ordering::Less),
            TolerationOperator::Gt => self.compare(taint).is_some_and(|o| o == std::cmp::Ordering::Greater),
            TolerationOperator::Unknown => false,
        }
    }

    fn compare(&self, taint: &Taint) -> Option<std::cmp::Ordering> {
        let read = |text: &str| {
            // Kubernetes asks for plain decimal: no sign but a minus, no leading zero.
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            plain.then(|| text.parse::<i64>().ok()).flatten()
        };
        Some(read(&taint.value)?.cmp(&read(&self.value)?))
    }
}

/// The first taint that keeps a pod away. PreferNoSchedule counts like the others unless `spare_preferred`.
pub fn untolerated<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
    spare_preferred: bool,
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        let spared = spare_preferred && taint.effect == Effect::PreferNoSchedule;
        let tolerated = tolerations.iter().any(|toleration| toleration.tolerates(taint));
        !(spared || tolerated)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tolerates_what() {
        let taint = Taint { key: "team".into(), value: "5".into(), effect: Effect::NoSchedule };
        let cases = [
            (["", "Exists", "", ""], true),
            (["team", "Exists", "", ""], true),
            (["team", "Exists", "", "NoSchedule"], true),
            (["team", "Exists", "", "NoExecute"], false),
            (["other", "Exists", "", ""], false),
            (["team", "", "5", ""], true),
            (["team", "Equal", "5", "NoSchedule"], true),
            (["team", "Equal", "6", ""], false),
            (["team", "", "", ""], false),
            (["team", "Lt", "6", ""], true),
            (["team", "Lt", "5", ""], false),
            (["team", "Gt", "4", ""], true),
            (["team", "Gt", "x", ""], false),
            (["team", "Near", "5", ""], false),
            (["team", "Exists", "", "Never"], false),
        ];
        for ([key, operator, value, effect], expected) in cases {
            let toleration = Toleration::read(key, operator, value, effect);
            assert_eq!(toleration.tolerates(&taint), expected, "{key} {operator} {value} {effect}");
        }
    }
}
