//! What is printed loads again as the same list.

use joiner_provider_kwok::{
    Availability, Catalogue, Format, GpuRow, LoadError, Parameters, WriteError, write,
};

fn check(types: &[joiner_api::instance_type::InstanceType]) -> Result<(), LoadError> {
    for (format, file_name) in [(Format::Json, "list.json"), (Format::Yaml, "list.yaml")] {
        let text = write(types, format).expect("the list can be printed");
        let again = Catalogue::from_text_with(file_name, &text, Availability::AsWritten)?;
        assert_eq!(again.types.len(), types.len());
        for (before, after) in types.iter().zip(&again.types) {
            assert!(before == after, "{file_name}: {before:#?}\nbecame {after:#?}");
        }
    }
    Ok(())
}

#[test]
fn computed_lists() -> Result<(), LoadError> {
    check(&Catalogue::hypothetical().types)?;
    let row = GpuRow {
        family: "g".to_owned(),
        cpu: 8,
        memory_gib: 61,
        resource: "amd.com/gpu".to_owned(),
        count: 4,
        price_per_gpu: 1.0 / 3.0,
    };
    let parameters = Parameters { zone_skew: 0.07, gpu_rows: vec![row], ..Parameters::default() };
    check(&Catalogue::generated(&parameters).expect("good parameters").types)
}

#[test]
fn a_list_of_aws_names() -> Result<(), LoadError> {
    check(&Catalogue::from_text("types.json", include_str!("../data/aws-us-west-2-excerpt.json"))?.types)
}

#[test]
fn files_with_everything() -> Result<(), LoadError> {
    for (file_name, text) in [
        ("types-case.json", include_str!("../data/types-case.json")),
        ("types-flat.json", include_str!("../data/types-flat.json")),
    ] {
        check(&Catalogue::from_text_with(file_name, text, Availability::AsWritten)?.types)?;
    }
    let text = "
- name: t
  architecture: amd64
  operatingSystems: [linux, windows]
  resources: {cpu: 1500m, memory: 1e9, pods: 7, hugepages-2Mi: 128Mi}
  VolumeLimits: {ebs.csi.aws.com: 25, other.example.com: 0}
  offerings:
  - {price: 1e-7, capacityType: reserved, zone: '1', reservationCapacity: 9, capacityOverride: {cpu: 3}, available: false}
  - price: 3
    requirements:
    - {key: topology.kubernetes.io/zone, operator: In, values: ['true']}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
    - {key: example.com/a, operator: Exists}
    - {key: example.com/b, operator: NotIn, values: ['null', '1e3', 'no']}
    - {key: example.com/c, operator: Gte, values: ['007']}
";
    check(&Catalogue::from_text_with("t.yaml", text, Availability::AsWritten)?.types)
}

#[test]
fn json_has_the_providers_keys_in_order() {
    let types = Catalogue::hypothetical().types;
    insta::assert_snapshot!(write(&one_offering(&types[0]), Format::Json).expect("printable"), @r#"
    [
      {
        "name": "c-1x-amd64-linux",
        "architecture": "amd64",
        "operatingSystems": [
          "linux"
        ],
        "resources": {
          "cpu": "1",
          "ephemeral-storage": "20Gi",
          "memory": "2Gi",
          "pods": "16"
        },
        "offerings": [
          {
            "Price": 0.019003238553599998,
            "Available": true,
            "Requirements": [
              {
                "key": "karpenter.sh/capacity-type",
                "operator": "In",
                "values": [
                  "spot"
                ]
              },
              {
                "key": "topology.kubernetes.io/zone",
                "operator": "In",
                "values": [
                  "test-zone-a"
                ]
              }
            ]
          }
        ]
      }
    ]
    "#);
}

#[test]
fn yaml_reads_like_yaml() {
    let types = Catalogue::hypothetical().types;
    insta::assert_snapshot!(write(&one_offering(&types[0]), Format::Yaml).expect("printable"), @r#"
    - name: c-1x-amd64-linux
      architecture: amd64
      operatingSystems:
      - linux
      resources:
        cpu: "1"
        ephemeral-storage: 20Gi
        memory: 2Gi
        pods: "16"
      offerings:
      - Price: 0.019003238553599998
        Available: true
        Requirements:
        - key: karpenter.sh/capacity-type
          operator: In
          values:
          - spot
        - key: topology.kubernetes.io/zone
          operator: In
          values:
          - test-zone-a
    "#);
}

fn one_offering(
    of: &joiner_api::instance_type::InstanceType,
) -> Vec<joiner_api::instance_type::InstanceType> {
    let mut of = of.clone();
    of.offerings.truncate(1);
    vec![of]
}

#[test]
fn a_price_that_is_no_number_is_not_printed() {
    let mut types = one_offering(&Catalogue::hypothetical().types[0]);
    types[0].offerings[0].price = f64::NAN;
    let expected = WriteError::Price { type_name: "c-1x-amd64-linux".to_owned(), price: "NaN".to_owned() };
    assert_eq!(write(&types, Format::Json), Err(expected));
}
