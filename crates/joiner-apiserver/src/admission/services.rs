//! What a cluster gives to services: an address, and ports on its nodes.
//!
//! Nobody owns what is given, so it is decided when the store is at hand and put into the object after its fields have got their owners.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::resources::Resource;
use crate::rest::{Cause, Core, Failure, meta_text};
use crate::store::{ResourceName, Session};

/// The first address for services, and how many there are.
const ADDRESSES: (u32, u32) = (u32::from_be_bytes([10, 96, 0, 0]), 1 << 20);
/// The first port of nodes for services, and how many there are.
const PORTS: (u32, u32) = (30_000, 2768);

/// What was given to a service, to be put into it.
pub(crate) struct Given {
    spec: Map<String, Value>,
}

impl Given {
    /// Puts it there.
    pub(crate) fn put_into(self, service: &mut Value) {
        if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
            spec.extend(self.spec);
        }
    }
}

/// What a new service gets.
///
/// # Errors
/// It asks for what another has.
pub(crate) fn on_create(
    core: &Core,
    session: &Session<'_>,
    resource: &Resource,
    service: &Value,
) -> Result<Given, Failure> {
    let mut giver = Giver { core, taken: Taken::look(session, None), causes: Vec::new() };
    let spec = giver.give(&service["spec"]);
    giver.conclude(resource, service)?;
    Ok(Given { spec })
}

/// A changed service keeps what it was given, loses what its type has no use for, and gets what it lacks.
///
/// # Errors
/// It asks for what another has.
pub(crate) fn on_update(
    core: &Core,
    session: &Session<'_>,
    resource: &Resource,
    old: &Value,
    service: &mut Value,
) -> Result<(), Failure> {
    keep(&old["spec"], &mut service["spec"]);
    lose(&old["spec"], &mut service["spec"]);
    if service["spec"] == old["spec"] {
        return Ok(());
    }
    let uid = meta_text(old, "uid");
    let mut giver = Giver { core, taken: Taken::look(session, Some(uid)), causes: Vec::new() };
    let spec = giver.give(&service["spec"]);
    giver.conclude(resource, service)?;
    Given { spec }.put_into(service);
    Ok(())
}

fn kind(spec: &Value) -> &str {
    spec["type"].as_str().unwrap_or_default()
}

fn has_address(spec: &Value) -> bool {
    matches!(kind(spec), "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn has_node_ports(spec: &Value) -> bool {
    match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn needs_health_check(spec: &Value) -> bool {
    kind(spec) == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Fields that a client left out because it did not set them are what they were.
fn keep(old: &Value, new: &mut Value) {
    let (addresses, ports) =
        (has_address(old) && has_address(new), has_node_ports(old) && has_node_ports(new));
    let health = needs_health_check(old) && needs_health_check(new);
    let Some(spec) = new.as_object_mut() else { return };
    let mut fields = Vec::new();
    if addresses {
        fields.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
        // One who sets the first address sets the others too.
        if spec.contains_key("clusterIP") {
            fields.retain(|field| *field != "clusterIPs");
        }
    }
    if health {
        fields.push("healthCheckNodePort");
    }
    for field in fields {
        if let (false, Some(value)) = (spec.contains_key(field), old.get(field)) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().filter(|_| ports) {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let before = items(&old["ports"]).iter().find(same).and_then(|other| other.get("nodePort")).cloned();
        if let (Some(fields), Some(before)) = (port.as_object_mut(), before) {
            fields.entry("nodePort").or_insert(before);
        }
    }
}

/// What the new type has no use for goes, unless the client changed it: then it is told.
fn lose(old: &Value, new: &mut Value) {
    let mut fields = Vec::new();
    if has_address(old) && !has_address(new) {
        fields.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if needs_health_check(old) && !needs_health_check(new) {
        fields.push("healthCheckNodePort");
    }
    if kind(old) == "LoadBalancer" && kind(new) != "LoadBalancer" {
        fields.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    let external = |spec: &Value| matches!(kind(spec), "NodePort" | "LoadBalancer");
    if external(old) && !external(new) && items(&new["externalIPs"]).is_empty() {
        fields.push("externalTrafficPolicy");
    }
    let ports = has_node_ports(old) && !has_node_ports(new);
    let Some(spec) = new.as_object_mut() else { return };
    for field in fields {
        if spec.get(field) == old.get(field) {
            spec.remove(field);
        }
    }
    for (port, before) in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .zip(items(&old["ports"]))
        .filter(|_| ports)
    {
        if let Some(fields) =
            port.as_object_mut().filter(|port| port.get("nodePort") == before.get("nodePort"))
        {
            fields.remove("nodePort");
        }
    }
}

/// What other services have.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u32>,
}

impl Taken {
    fn look(session: &Session<'_>, but: Option<&str>) -> Self {
        let mut taken = Self::default();
        for (_, service) in session.list(&ResourceName::new("", "services"), None, None) {
            if Some(service.object().uid()) == but {
                continue;
            }
            let spec = &service["spec"];
            taken.addresses.extend(address(&spec["clusterIP"]));
            let ports = items(&spec["ports"]).iter().map(|port| &port["nodePort"]);
            let ports = ports.chain([&spec["healthCheckNodePort"]]).map(number);
            taken.ports.extend(ports.filter(|port| *port != 0));
        }
        taken
    }
}

fn address(value: &Value) -> Option<u32> {
    value.as_str()?.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits)
}

struct Giver<'a> {
    core: &'a Core,
    taken: Taken,
    causes: Vec<Cause>,
}

impl Giver<'_> {
    fn conclude(self, resource: &Resource, service: &Value) -> Result<(), Failure> {
        if self.causes.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid(&resource.group, &resource.kind, meta_text(service, "name"), &self.causes))
    }

    /// The fields of a spec that are given, and those that follow from them.
    fn give(&mut self, spec: &Value) -> Map<String, Value> {
        let mut given = Map::new();
        let wanted = spec["clusterIP"].as_str().unwrap_or_default();
        if !wanted.is_empty() && items(&spec["clusterIPs"]).is_empty() {
            given.insert("clusterIPs".to_owned(), json!([wanted]));
        }
        if has_address(spec) {
            self.give_address(spec, wanted, &mut given);
        }
        if has_node_ports(spec) {
            self.give_node_ports(spec, &mut given);
        }
        if needs_health_check(spec) && number(&spec["healthCheckNodePort"]) == 0 {
            let port = free(self.core, PORTS, &mut self.taken.ports);
            given.extend(port.map(|port| ("healthCheckNodePort".to_owned(), json!(port))));
        }
        given
    }

    fn give_address(&mut self, spec: &Value, wanted: &str, given: &mut Map<String, Value>) {
        for (field, value) in [("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))] {
            if spec.get(field).is_none() {
                given.insert(field.to_owned(), value);
            }
        }
        if wanted.is_empty() && items(&spec["clusterIPs"]).is_empty() {
            if let Some(free) = free(self.core, ADDRESSES, &mut self.taken.addresses) {
                let free = json!(Ipv4Addr::from_bits(free).to_string());
                given.insert("clusterIPs".to_owned(), json!([free]));
                given.insert("clusterIP".to_owned(), free);
            }
        } else if address(&spec["clusterIP"]).is_some_and(|address| self.taken.addresses.contains(&address)) {
            let detail = format!("failed to allocate IP {wanted}: provided IP is already allocated");
            self.causes.push(Cause::invalid("spec.clusterIPs", &json!([wanted]), &detail));
        }
    }

    fn give_node_ports(&mut self, spec: &Value, given: &mut Map<String, Value>) {
        let mut ports = items(&spec["ports"]).to_vec();
        for (index, port) in ports.iter_mut().enumerate() {
            let at = || format!("spec.ports[{index}].nodePort");
            match number(&port["nodePort"]) {
                0 => {
                    let free = free(self.core, PORTS, &mut self.taken.ports);
                    if let (Some(fields), Some(free)) = (port.as_object_mut(), free) {
                        fields.insert("nodePort".to_owned(), json!(free));
                    }
                }
                wanted if wanted < PORTS.0 || wanted >= PORTS.0 + PORTS.1 => {
                    let last = PORTS.0 + PORTS.1 - 1;
                    let detail = format!(
                        "provided port is not in the valid range. The range of valid ports is {}-{last}",
                        PORTS.0
                    );
                    self.causes.push(Cause::invalid(at(), &json!(wanted), &detail));
                }
                wanted => {
                    if !self.taken.ports.insert(wanted) {
                        let detail = "provided port is already allocated";
                        self.causes.push(Cause::invalid(at(), &json!(wanted), detail));
                    }
                }
            }
        }
        given.insert("ports".to_owned(), Value::Array(ports));
    }
}

/// One of a range that nobody has, which is taken then; none if there is none.
fn free(core: &Core, (first, count): (u32, u32), taken: &mut BTreeSet<u32>) -> Option<u32> {
    // The first number is that of the network, or of nobody.
    let start = core.chance.below(count - 1);
    let found = (0..count - 1)
        .map(|step| first + 1 + (start + step) % (count - 1))
        .find(|one| !taken.contains(one))?;
    taken.insert(found);
    Some(found)
}
