//! Files of prices: a table (CSV), a list (JSON), or what two calls of the AWS command line answer.
//!
//! * CSV with a heading, and JSON as a list of objects (or `{"prices": […]}`): `type`, `region`, `zone`, `capacityType`, `price`. Region and zone may be
//!   left out, capacity type too (`on-demand`).
//! * `aws pricing get-products --service-code AmazonEC2 …`: on-demand prices of Linux machines.
//! * `aws ec2 describe-spot-price-history …`: spot prices; of several for a zone the newest counts.

use std::collections::BTreeMap;

use joiner_api::names::{CAPACITY_TYPES, ON_DEMAND, SPOT};
use serde_json::Value;

use crate::world::{region_of_zone, world};

/// One price.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceRow {
    /// The machine type.
    pub instance_type: String,
    /// The region it is for, if it is not for all.
    pub region: Option<String>,
    /// The zone it is for, if it is not for all.
    pub zone: Option<String>,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// Dollars per hour.
    pub price: f64,
}

/// What is wrong with a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceProblem {
    /// Line, where the format tells.
    pub line: Option<usize>,
    /// The field, in JSON from the top.
    pub path: String,
    /// What stands there.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// What makes two prices one and the same.
type Terms = (String, Option<String>, Option<String>, String);

/// Reads a file of any of these kinds.
///
/// # Errors
/// The file is none of them, or a price in it is missing, negative, there twice or for a place that nobody knows.
pub fn read(text: &str) -> Result<Vec<PriceRow>, PriceProblem> {
    let mut rows = Rows::default();
    match text.trim_start().chars().next() {
        None => {}
        Some('{' | '[') => {
            let value: Value = serde_json::from_str(text).map_err(|error| PriceProblem {
                line: Some(error.line()),
                message: format!("this is not JSON: {error}"),
                remedy: "give a list of prices, or the answer of the AWS command line as it came".to_owned(),
                ..PriceProblem::default()
            })?;
            read_json(&value, &mut rows)?;
        }
        Some(_) => read_csv(text, &mut rows)?,
    }
    if rows.rows.is_empty() {
        return Err(PriceProblem {
            message: "there is no price in it".to_owned(),
            remedy: "give at least one, of Linux machines on shared hosts".to_owned(),
            ..PriceProblem::default()
        });
    }
    Ok(rows.rows)
}

/// Where a price stands.
#[derive(Default)]
struct Place {
    line: Option<usize>,
    prefix: String,
}

impl Place {
    fn problem(&self, field: &str, value: Option<&str>, message: &str, remedy: &str) -> PriceProblem {
        let dot = if self.prefix.is_empty() || field.is_empty() { "" } else { "." };
        PriceProblem {
            line: self.line,
            path: format!("{}{dot}{field}", self.prefix),
            value: value.map(str::to_owned),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

#[derive(Default)]
struct Rows {
    rows: Vec<PriceRow>,
    /// Where each was said first.
    said: BTreeMap<Terms, String>,
}

/// A price before it is checked.
#[derive(Default)]
struct Written<'a> {
    instance_type: &'a str,
    region: &'a str,
    zone: &'a str,
    capacity_type: &'a str,
    price: String,
    /// What the price's field is called.
    field: &'a str,
}

impl Rows {
    fn add(&mut self, place: &Place, written: Written) -> Result<(), PriceProblem> {
        let Written { instance_type, region, zone, capacity_type, price, field } = written;
        let told = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        if instance_type.is_empty() {
            return Err(place.problem(
                "type",
                None,
                "the price is of no machine type",
                "name one, e.g. `m5.large`",
            ));
        }
        let capacity_type = if capacity_type.is_empty() { ON_DEMAND } else { capacity_type };
        if !CAPACITY_TYPES.contains(&capacity_type) {
            let remedy = format!("write one of {}", CAPACITY_TYPES.join(", "));
            return Err(place.problem(
                "capacityType",
                Some(capacity_type),
                "there is no such capacity type",
                &remedy,
            ));
        }
        let of_zone = region_of_zone(zone);
        if !zone.is_empty() && of_zone.is_none() {
            return Err(place.problem(
                "zone",
                Some(zone),
                "this is no zone of AWS",
                "write e.g. `eu-west-1a`",
            ));
        }
        let region = if region.is_empty() { of_zone.unwrap_or_default() } else { region };
        if of_zone.is_some_and(|of| of != region) {
            let message = format!("this zone is not in the region `{region}`");
            return Err(place.problem("zone", Some(zone), &message, "correct one of the two"));
        }
        if !region.is_empty() && world().region(region).is_none() {
            return Err(place.problem(
                "region",
                Some(region),
                "nobody knows this region",
                &known_regions(region),
            ));
        }
        if price.is_empty() {
            let remedy = "give dollars per hour, or drop the entry";
            return Err(place.problem(
                field,
                None,
                &format!("the price of `{instance_type}` is missing"),
                remedy,
            ));
        }
        let number: Option<f64> = price.parse().ok();
        let Some(number) = number.filter(|price| price.is_finite() && *price >= 0.0) else {
            let negative = number.is_some_and(|price| price < 0.0);
            let message = if negative { "a price cannot be negative" } else { "this is no price" };
            return Err(place.problem(field, Some(&price), message, "give dollars per hour, e.g. 0.096"));
        };
        let row = PriceRow {
            instance_type: instance_type.to_owned(),
            region: told(region),
            zone: told(zone),
            capacity_type: capacity_type.to_owned(),
            price: number,
        };
        let terms =
            (row.instance_type.clone(), row.region.clone(), row.zone.clone(), row.capacity_type.clone());
        let here = match (place.line, place.prefix.as_str()) {
            (Some(line), _) => format!("line {line}"),
            (None, prefix) => format!("`{prefix}`"),
        };
        if let Some(first) = self.said.get(&terms) {
            let where_at = row.zone.as_ref().or(row.region.as_ref()).map_or("everywhere", String::as_str);
            let message = format!(
                "the {capacity_type} price of `{instance_type}` in {where_at} is there twice, first in {first}"
            );
            return Err(place.problem(field, Some(&price), &message, "keep one of the two"));
        }
        self.said.insert(terms, here);
        self.rows.push(row);
        Ok(())
    }
}

/// What to do about a region nobody knows.
pub fn known_regions(wanted: &str) -> String {
    let names: Vec<&str> = world().regions().iter().map(|region| region.name.as_str()).collect();
    let digits_apart = |name: &&&str| {
        name.trim_end_matches(|c: char| c.is_ascii_digit())
            == wanted.trim_end_matches(|c: char| c.is_ascii_digit())
    };
    let near: Vec<&str> = names.iter().filter(digits_apart).copied().collect();
    match near.as_slice() {
        [] => format!("known are {}", names.join(", ")),
        near => format!("did you mean `{}`?", near.join("` or `")),
    }
}

// ---- CSV ----

fn read_csv(text: &str, rows: &mut Rows) -> Result<(), PriceProblem> {
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let broken = |error: csv::Error| PriceProblem {
        line: error.position().and_then(|at| usize::try_from(at.line()).ok()),
        message: "this line cannot be read".to_owned(),
        remedy: "give a table with the columns type, region, zone, capacity type, price".to_owned(),
        ..PriceProblem::default()
    };
    let heading: Vec<String> = reader.headers().map_err(broken)?.iter().map(plain).collect();
    let column = |names: &[&str]| heading.iter().position(|of| names.contains(&of.as_str()));
    let of_type = column(&["type", "instancetype"]);
    let (region, zone) = (column(&["region"]), column(&["zone", "availabilityzone"]));
    let capacity_type = column(&["capacitytype"]);
    let price = column(&["price", "priceperhour", "priceusd"]);
    for (name, at) in [("type", of_type), ("price", price)] {
        if at.is_none() {
            let place = Place { line: Some(1), ..Place::default() };
            let message = format!("the heading has no column `{name}`");
            return Err(place.problem(
                "",
                None,
                &message,
                "begin with `type,region,zone,capacity type,price`",
            ));
        }
    }
    let mut lines = Lines { text, at: 0, line: 1 };
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line =
            record.position().and_then(|at| usize::try_from(at.byte()).ok()).map(|at| lines.line_of(at));
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default();
        let written = Written {
            instance_type: cell(of_type),
            region: cell(region),
            zone: cell(zone),
            capacity_type: cell(capacity_type),
            price: cell(price).trim_start_matches('$').to_owned(),
            field: "price",
        };
        rows.add(&Place { line, ..Place::default() }, written)?;
    }
    Ok(())
}

/// Lines by offsets that grow. A record's own line number counts from the blank lines before it.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn line_of(&mut self, offset: usize) -> usize {
        let bytes = self.text.as_bytes();
        let is_between = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'\n' | b'\r'));
        while self.at < offset || is_between(bytes.get(self.at)) {
            self.line += usize::from(bytes.get(self.at) == Some(&b'\n'));
            self.at += 1;
        }
        self.line
    }
}

/// A heading without what people vary.
fn plain(heading: &str) -> String {
    heading.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

// ---- JSON ----

fn read_json(value: &Value, rows: &mut Rows) -> Result<(), PriceProblem> {
    if let Some(products) = value.get("PriceList") {
        return read_products(products, rows);
    }
    if let Some(history) = value.get("SpotPriceHistory") {
        return read_history(history, rows);
    }
    let (list, key) = match value.get("prices") {
        Some(list) => (list, "prices"),
        None => (value, ""),
    };
    let Some(list) = list.as_array() else {
        let message = "there is no list of prices in it";
        return Err(Place::default().problem(
            "",
            None,
            message,
            "give a list of `{\"type\": …, \"price\": …}`, or the answer of the AWS command line as it came",
        ));
    };
    for (at, entry) in list.iter().enumerate() {
        let place = Place { line: None, prefix: format!("{key}[{at}]") };
        let field = |names: [&str; 2]| names.iter().find_map(|name| entry.get(name));
        let text = |names| field(names).and_then(Value::as_str).unwrap_or_default();
        let price = match field(["price", "pricePerHour"]) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let written = Written {
            instance_type: text(["type", "instanceType"]),
            region: text(["region", "regionCode"]),
            zone: text(["zone", "availabilityZone"]),
            capacity_type: text(["capacityType", "capacity type"]),
            price,
            field: "price",
        };
        rows.add(&place, written)?;
    }
    Ok(())
}

/// `aws pricing get-products`: products as JSON in strings, or as they are.
fn read_products(products: &Value, rows: &mut Rows) -> Result<(), PriceProblem> {
    for (at, product) in products.as_array().into_iter().flatten().enumerate() {
        let place = Place { line: None, prefix: format!("PriceList[{at}]") };
        let parsed;
        let product = match product {
            Value::String(text) => {
                parsed = serde_json::from_str(text).map_err(|_| {
                    place.problem("", None, "this product is not JSON", "give the answer as it came")
                })?;
                &parsed
            }
            other => other,
        };
        let attributes = &product["product"]["attributes"];
        let text = |key: &str| attributes[key].as_str().unwrap_or_default();
        let is = |key: &str, value: &str| text(key).is_empty() || text(key) == value;
        let shared = is("tenancy", "Shared");
        let metal = product["product"]["productFamily"] == "Compute Instance (bare metal)";
        let is_meant = is("operatingSystem", "Linux")
            && is("preInstalledSw", "NA")
            && is("capacitystatus", "Used")
            && is("marketoption", "OnDemand")
            && (shared || metal);
        if !is_meant || text("instanceType").is_empty() {
            continue;
        }
        let terms = product["terms"]["OnDemand"].as_object().into_iter().flat_map(|terms| terms.values());
        let dimensions =
            terms.flat_map(|term| term["priceDimensions"].as_object()).flat_map(|of| of.values());
        let Some(per_unit) = dimensions.filter_map(|of| of["pricePerUnit"].as_object()).next() else {
            continue;
        };
        let Some(price) = per_unit.get("USD").and_then(Value::as_str) else {
            let currency = per_unit.keys().next().cloned().unwrap_or_default();
            return Err(place.problem(
                "pricePerUnit",
                Some(&currency),
                "prices are compared in dollars",
                "convert it and give the prices as a table",
            ));
        };
        let written = Written {
            instance_type: text("instanceType"),
            region: text("regionCode"),
            zone: "",
            capacity_type: ON_DEMAND,
            price: price.to_owned(),
            field: "pricePerUnit.USD",
        };
        rows.add(&place, written)?;
    }
    Ok(())
}

/// `aws ec2 describe-spot-price-history`: the newest price of each type and zone.
fn read_history(history: &Value, rows: &mut Rows) -> Result<(), PriceProblem> {
    let mut newest: BTreeMap<(&str, &str), (&str, usize, &Value)> = BTreeMap::new();
    for (at, entry) in history.as_array().into_iter().flatten().enumerate() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        if !text("ProductDescription").is_empty() && !text("ProductDescription").starts_with("Linux/UNIX") {
            continue;
        }
        let when = text("Timestamp");
        let kept =
            newest.entry((text("InstanceType"), text("AvailabilityZone"))).or_insert((when, at, entry));
        if when > kept.0 {
            *kept = (when, at, entry);
        }
    }
    let mut kept: Vec<_> = newest.into_iter().collect();
    kept.sort_by_key(|(_, (_, at, _))| *at);
    for ((instance_type, zone), (_, at, entry)) in kept {
        let place = Place { line: None, prefix: format!("SpotPriceHistory[{at}]") };
        let price = entry["SpotPrice"].as_str().unwrap_or_default().to_owned();
        let written =
            Written { instance_type, region: "", zone, capacity_type: SPOT, price, field: "SpotPrice" };
        rows.add(&place, written)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(of: &str, region: Option<&str>, zone: Option<&str>, capacity_type: &str, price: f64) -> PriceRow {
        PriceRow {
            instance_type: of.to_owned(),
            region: region.map(str::to_owned),
            zone: zone.map(str::to_owned),
            capacity_type: capacity_type.to_owned(),
            price,
        }
    }

    #[test]
    fn a_table_is_read() {
        let text = "Type, Region, Zone, Capacity Type, Price\nm5.large,eu-west-1,,on-demand,0.107\nm5.large,,eu-west-1a,spot,$0.04\nc5.large,,,,0.09\n";
        let expected = [
            row("m5.large", Some("eu-west-1"), None, "on-demand", 0.107),
            row("m5.large", Some("eu-west-1"), Some("eu-west-1a"), "spot", 0.04),
            row("c5.large", None, None, "on-demand", 0.09),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn lists_are_read() {
        let text = r#"{"prices": [{"type": "m5.large", "region": "eu-west-1", "price": 0.107}, {"instanceType": "m5.large", "zone": "eu-west-1b", "capacityType": "spot", "price": "0.05"}]}"#;
        let expected = [
            row("m5.large", Some("eu-west-1"), None, "on-demand", 0.107),
            row("m5.large", Some("eu-west-1"), Some("eu-west-1b"), "spot", 0.05),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn answers_of_aws_are_read() {
        let product = |os: &str, tenancy: &str, price: &str| {
            serde_json::json!({
                "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": "m5.large", "regionCode": "eu-west-1",
                    "operatingSystem": os, "tenancy": tenancy, "capacitystatus": "Used", "preInstalledSw": "NA", "marketoption": "OnDemand"}},
                "terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": {"unit": "Hrs", "pricePerUnit": {"USD": price}}}}}},
            })
            .to_string()
        };
        let answer = serde_json::json!({"FormatVersion": "aws_v1", "PriceList": [
            product("Windows", "Shared", "0.199"), product("Linux", "Dedicated", "0.118"), product("Linux", "Shared", "0.1070000000"),
        ]});
        assert_eq!(
            read(&answer.to_string()).unwrap(),
            [row("m5.large", Some("eu-west-1"), None, "on-demand", 0.107)]
        );

        let spot = |price: &str, at: &str, os: &str| {
            serde_json::json!({"AvailabilityZone": "eu-west-1a", "InstanceType": "m5.large", "ProductDescription": os,
                "SpotPrice": price, "Timestamp": at})
        };
        let answer = serde_json::json!({"SpotPriceHistory": [
            spot("0.0400", "2026-11-18T09:00:00+00:00", "Linux/UNIX"), spot("0.0450", "2026-11-19T02:00:00+00:00", "Linux/UNIX"),
            spot("0.1100", "2026-11-19T03:00:00+00:00", "Windows"),
        ]});
        let expected = [row("m5.large", Some("eu-west-1"), Some("eu-west-1a"), "spot", 0.045)];
        assert_eq!(read(&answer.to_string()).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, line, path, part) in [
            ("type,price\nm5.large,-1", Some(2), "price", "cannot be negative"),
            ("type,price\nm5.large,", Some(2), "price", "is missing"),
            ("type,price\nm5.large", Some(2), "price", "is missing"),
            ("type,price\nm5.large,cheap", Some(2), "price", "no price"),
            ("type,price\nm5.large,inf", Some(2), "price", "no price"),
            ("type,price\nm5.large,1\n\nm5.large,2", Some(4), "price", "twice, first in line 2"),
            ("type,price\n,1", Some(2), "type", "no machine type"),
            ("type,price\n", None, "", "no price in it"),
            ("", None, "", "no price in it"),
            ("machine,price\nm5.large,1", Some(1), "", "no column `type`"),
            ("type,zone,price\nm5.large,nowhere,1", Some(2), "zone", "no zone of AWS"),
            ("type,region,price\nm5.large,eu-west-9,1", Some(2), "region", "nobody knows"),
            ("type,region,zone,price\nm5.large,eu-west-1,us-east-1a,1", Some(2), "zone", "not in the region"),
            ("type,capacity type,price\nm5.large,cheap,1", Some(2), "capacityType", "no such capacity type"),
            ("[{\"type\": \"m5.large\"}]", None, "[0].price", "is missing"),
            ("[{\"type\": \"m5.large\", \"price\": -0.1}]", None, "[0].price", "negative"),
            ("{\"items\": []}", None, "", "no list of prices"),
            ("[{\"type\": \n", Some(2), "", "not JSON"),
            (
                "{\"SpotPriceHistory\": [{\"InstanceType\": \"m5.large\", \"AvailabilityZone\": \"eu-west-1a\"}]}",
                None,
                "SpotPriceHistory[0].SpotPrice",
                "missing",
            ),
        ] {
            let problem = read(text).unwrap_err();
            assert_eq!((problem.line, problem.path.as_str()), (line, path), "{text}");
            assert!(problem.message.contains(part), "{text}: {}", problem.message);
            assert!(!problem.remedy.is_empty(), "{text}");
        }
        let nearest = read("type,region,price\nm5.large,eu-west-9,1").unwrap_err().remedy;
        assert_eq!(nearest, "did you mean `eu-west-1` or `eu-west-2` or `eu-west-3`?");
    }
}
