//! Why a rule could not be evaluated, in the words of Kubernetes.

use kube_cel::cel::{ExecutionError, Value as Cel};

/// What Kubernetes says of an error. The library also names the function and shows values in a form of its own.
pub(crate) fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { message, .. } => match place_out_of_range(message) {
            Some(place) => format!("index out of range: {place}"),
            None => message.clone(),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Cel::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(place)) => format!("index out of bounds: {place}"),
        other => uncapitalised(&other.to_string()),
    }
}

/// The place that a function on texts was asked for in vain.
fn place_out_of_range(message: &str) -> Option<i64> {
    let (before, _) = message.split_once(" out of range")?;
    before.rsplit_once("index ")?.1.parse().ok()
}

/// Messages of Kubernetes begin with a small letter.
fn uncapitalised(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_words_of_kubernetes() {
        let failed = |message: &str| ExecutionError::function_error("f", message);
        for (error, expected) in [
            (failed("optional.none() dereference"), "optional.none() dereference"),
            (failed("start index -1 out of range for string of length 3"), "index out of range: -1"),
            (ExecutionError::DivisionByZero(Cel::Int(1)), "division by zero"),
            (ExecutionError::RemainderByZero(Cel::Int(1)), "modulus by zero"),
            (ExecutionError::Overflow("add", Cel::UInt(1), Cel::UInt(1)), "unsigned integer overflow"),
            (ExecutionError::Overflow("add", Cel::Int(1), Cel::Int(1)), "integer overflow"),
            (ExecutionError::IndexOutOfBounds(Cel::Int(5)), "index out of bounds: 5"),
            (ExecutionError::no_such_key("z"), "no such key: z"),
            (ExecutionError::NoSuchOverload, "no such overload"),
        ] {
            assert_eq!(words(&error), expected);
        }
    }
}
