//! Templates, run on values.

use serde_json::Value;

use super::functions;
use super::template::{Expression, Node, Templates};

/// Templates that call each other no deeper than this.
const DEPTH: usize = 64;

/// What a body prints with this as `.` and `$`.
pub fn run(templates: &Templates, body: &[Node], root: &Value) -> Result<String, String> {
    run_within(templates, body, root, 0)
}

fn run_within(templates: &Templates, body: &[Node], root: &Value, depth: usize) -> Result<String, String> {
    if depth > DEPTH {
        return Err("templates call each other without end".to_owned());
    }
    let mut run =
        Run { templates, variables: vec![(String::new(), root.clone())], out: String::new(), depth };
    run.all(body, root)?;
    Ok(run.out)
}

struct Run<'t> {
    templates: &'t Templates,
    /// Later ones hide earlier ones; `$` has no name.
    variables: Vec<(String, Value)>,
    out: String,
    depth: usize,
}

impl Run<'_> {
    fn all(&mut self, body: &[Node], dot: &Value) -> Result<(), String> {
        let before = self.variables.len();
        for node in body {
            self.one(node, dot)?;
        }
        self.variables.truncate(before);
        Ok(())
    }

    fn one(&mut self, node: &Node, dot: &Value) -> Result<(), String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(expression) => {
                let value = self.value(expression, dot)?;
                self.out.push_str(&functions::printed(&value));
            }
            Node::Assign { name, new, value } => {
                let value = self.value(value, dot)?;
                match self.variables.iter_mut().rev().find(|(known, _)| !new && known == name) {
                    Some((_, place)) => *place = value,
                    None => self.variables.push((name.clone(), value)),
                }
            }
            Node::If { cases, otherwise } => {
                for (condition, body) in cases {
                    if functions::is_true(&self.value(condition, dot)?) {
                        return self.all(body, dot);
                    }
                }
                self.all(otherwise, dot)?;
            }
            Node::With { value, body, otherwise } => {
                let value = self.value(value, dot)?;
                match functions::is_true(&value) {
                    true => self.all(body, &value)?,
                    false => self.all(otherwise, dot)?,
                }
            }
            Node::Range { key, item, over, body } => {
                let items: Vec<(Value, Value)> = match self.value(over, dot)? {
                    Value::Null => Vec::new(),
                    Value::Array(items) => {
                        items.into_iter().enumerate().map(|(at, item)| (Value::from(at), item)).collect()
                    }
                    Value::Object(fields) => {
                        let mut fields: Vec<_> = fields.into_iter().collect();
                        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                        fields.into_iter().map(|(name, value)| (Value::String(name), value)).collect()
                    }
                    other => return Err(format!("cannot go over {other}")),
                };
                for (at, value) in items {
                    let before = self.variables.len();
                    for (name, value) in [(key, &at), (item, &value)] {
                        if let Some(name) = name {
                            self.variables.push((name.clone(), value.clone()));
                        }
                    }
                    self.all(body, &value)?;
                    self.variables.truncate(before);
                }
            }
        }
        Ok(())
    }

    fn value(&self, expression: &Expression, dot: &Value) -> Result<Value, String> {
        match expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Field { of: None, path } => field(dot, path),
            Expression::Field { of: Some(name), path } => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("there is no variable `${name}`"))?;
                field(value, path)
            }
            Expression::Call(name, arguments) => self.call(name, arguments, dot),
        }
    }

    fn call(&self, name: &str, arguments: &[Expression], dot: &Value) -> Result<Value, String> {
        // These look at no more than they need.
        if name == "and" || name == "or" {
            let mut last = Value::Null;
            for argument in arguments {
                last = self.value(argument, dot)?;
                if functions::is_true(&last) == (name == "or") {
                    break;
                }
            }
            return Ok(last);
        }
        let values: Result<Vec<Value>, String> =
            arguments.iter().map(|argument| self.value(argument, dot)).collect();
        let values = values?;
        if name == "include" {
            let [Value::String(named), dot] = values.as_slice() else {
                return Err("`include` wants a name and a value".to_owned());
            };
            let body = self.templates.named.get(named).ok_or_else(|| format!("no template `{named}`"))?;
            let text = run_within(self.templates, body, dot, self.depth + 1)?;
            return Ok(Value::String(text));
        }
        functions::call(name, &values)
    }
}

fn field(value: &Value, path: &[String]) -> Result<Value, String> {
    let mut value = value;
    for name in path {
        value = match value {
            Value::Object(fields) => fields.get(name).unwrap_or(&Value::Null),
            _ => return Err(format!("there is no `.{name}` in {value}")),
        };
    }
    Ok(value.clone())
}
