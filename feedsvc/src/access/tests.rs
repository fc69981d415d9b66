//! Tests of roles as pure values: what a record says, what is decided by it, what is seen and what may be written.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::rights::{Action, Object, Operation, Rights, RightsChange, decide};
use super::view::TableView;
use super::visible_change::{ShownValues, show_change};
use super::{AccessMode, Principal};
use crate::catalog::TableName;

const ROLE: &str = r#"{
    "id": "clerk", "operations": ["watch"],
    "data": {"tables": {
        "Product": {"read": true, "insert": true, "update": true,
            "attribute_permissions": [
                {"attribute_name": "price", "read": true},
                {"attribute_name": "secret", "insert": true}
            ]},
        "Seen": {"describe": true},
        "Own": {"read": true, "delete": true, "row_filter": {"conditions": [
            {"attribute": "owner", "value": "$principal.name"},
            {"attribute": "teams", "comparator": "contains", "value": "$principal.attributes.team"}
        ], "operator": "or"}}
    }}
}"#;

fn change(table: &TableName, key: &str, record: &str) -> RightsChange {
    RightsChange::read(table, key, Some(record.as_bytes()))
        .unwrap()
        .unwrap()
}

fn rights(mode: AccessMode) -> Rights {
    Rights::new(mode).changed([
        change(&TableName::system_role(), "clerk", ROLE),
        change(
            &TableName::system_user(),
            "alice",
            r#"{"id":"alice","role":"clerk"}"#,
        ),
        change(&TableName::system_user(), "bob", r#"{"id":"bob","role":"gone"}"#),
        change(
            &TableName::system_user(),
            "root",
            r#"{"id":"root","role":"super_user"}"#,
        ),
    ])
}

fn principal(name: &str, role: &str) -> Principal {
    Principal {
        role: role.to_owned(),
        ..Principal::named(name)
    }
}

/// Whether a principal may; the refusal's text otherwise.
fn check(who: (&str, &str), action: Action, object: Object<'_>, expected: &str) {
    let role = rights(AccessMode::Roles).role_of(&principal(who.0, who.1));
    let outcome = decide(&role, action, object).map_or_else(|denied| denied.to_string(), |()| String::new());
    assert_eq!(outcome, expected, "{who:?} {action:?} {object:?}");
    let open = rights(AccessMode::Open).role_of(&principal(who.0, who.1));
    let is_own_table = matches!(object, Object::Table(table) if *table == TableName::system_table());
    assert_eq!(
        decide(&open, action, object).is_ok(),
        !is_own_table || action == Action::Read
    );
}

#[test]
fn b_14_3_a_role_may_do_what_it_names_and_nothing_else() {
    let data = |table: &str| TableName::new("data", table);
    let (product, seen, other) = (data("Product"), data("Seen"), data("Other"));
    let (roles, tables) = (TableName::system_role(), TableName::system_table());
    let table = Object::Table;
    for who in [("alice", ""), ("", "clerk"), ("bob", "clerk"), ("root", "clerk")] {
        check(who, Action::Read, table(&product), "");
        check(who, Action::Describe, table(&product), "");
        check(who, Action::Update, table(&product), "");
        check(
            who,
            Action::Delete,
            table(&product),
            "role `clerk` may not delete records of table data.Product",
        );
        check(who, Action::Describe, table(&seen), "");
        check(
            who,
            Action::Read,
            table(&seen),
            "role `clerk` may not read records of table data.Seen",
        );
        check(
            who,
            Action::Read,
            table(&other),
            "role `clerk` may not read records of table data.Other",
        );
        check(who, Action::Read, Object::Attribute(&product, "name"), "");
        check(who, Action::Update, Object::Attribute(&product, "name"), "");
        check(who, Action::Read, Object::Attribute(&product, "price"), "");
        let denied = "role `clerk` may not update attribute `price` of table data.Product";
        check(who, Action::Update, Object::Attribute(&product, "price"), denied);
        let denied = "role `clerk` may not read attribute `secret` of table data.Product";
        check(who, Action::Read, Object::Attribute(&product, "secret"), denied);
        check(who, Action::Insert, Object::Attribute(&product, "secret"), "");
        check(who, Action::Call, Object::Operation(Operation::Watch), "");
        let denied = "role `clerk` has not the operation `compact`";
        check(who, Action::Call, Object::Operation(Operation::Compact), denied);
        check(
            who,
            Action::Read,
            table(&roles),
            "role `clerk` may not read records of table system.role",
        );
        check(
            who,
            Action::Update,
            table(&roles),
            "role `clerk` may not update records of table system.role",
        );
        check(who, Action::Call, Object::Own, "");
    }
    for (who, role) in [
        (("", ""), "anonymous"),
        (("eve", ""), "anonymous"),
        (("bob", ""), "gone"),
        (("alice", "gone"), "gone"),
    ] {
        let denied = format!("role `{role}` may not read records of table data.Product");
        check(who, Action::Read, table(&product), &denied);
        let denied = format!("role `{role}` has not the operation `watch`");
        check(who, Action::Call, Object::Operation(Operation::Watch), &denied);
        check(who, Action::Call, Object::Own, "");
    }
    for who in [("root", ""), ("", "super_user"), ("bob", "super_user")] {
        check(who, Action::Delete, table(&other), "");
        check(who, Action::Update, table(&roles), "");
        check(who, Action::Read, table(&tables), "");
        check(
            who,
            Action::Insert,
            table(&tables),
            "table system.table is written by the service only",
        );
        check(who, Action::Call, Object::Operation(Operation::Backup), "");
    }
}

#[test]
fn a_record_that_is_no_role_is_refused_with_its_place() {
    let role = TableName::system_role();
    for (record, expected) in [
        ("[]", "an array; allowed is a JSON object"),
        (
            r#"{"super_user":1}"#,
            "attribute `super_user` is the number 1; allowed is true or false",
        ),
        (
            r#"{"operations":"watch"}"#,
            "attribute `operations` is the string \"watch\"; allowed is an array",
        ),
        (
            r#"{"operations":["a",1]}"#,
            "attribute `operations[1]` is the number 1; allowed is a string that is not empty",
        ),
        (
            r#"{"data":true}"#,
            "attribute `data` is true; allowed is a JSON object",
        ),
        (
            r#"{"data":{"table":{}}}"#,
            "attribute `data.table` is not declared; allowed is one of tables",
        ),
        (
            r#"{"data":{"tables":{"T":{"reed":true}}}}"#,
            "attribute `data.tables.T.reed` is not declared; allowed is one of read, insert, update, delete, describe, attribute_permissions, row_filter",
        ),
        (
            r#"{"data":{"tables":{"T":{"read":"yes"}}}}"#,
            "attribute `data.tables.T.read` is the string \"yes\"; allowed is true or false",
        ),
        (
            r#"{"data":{"tables":{"T":{"attribute_permissions":[{"read":true}]}}}}"#,
            "attribute `data.tables.T.attribute_permissions[0].attribute_name` is missing; allowed is the name of an attribute",
        ),
        (
            r#"{"data":{"tables":{"T":{"attribute_permissions":[{"attribute_name":"a"},{"attribute_name":"a"}]}}}}"#,
            "attribute `data.tables.T.attribute_permissions[1].attribute_name` is the string \"a\" once more; allowed is each attribute once",
        ),
        (
            r#"{"data":{"tables":{"T":{"row_filter":{"conditions":[{"attribute":"a","value":"$principal.nam"}]}}}}}"#,
            "attribute `data.tables.T.row_filter.conditions[0].value` is the string \"$principal.nam\"; allowed is $principal.name or $principal.attributes.X",
        ),
        (
            r#"{"system":{"tables":{"role":{"read":true}}}}"#,
            "attribute `system` is an object; allowed is nothing: the tables of the service itself are for super_users only",
        ),
    ] {
        let refused = RightsChange::read(&role, "r", Some(record.as_bytes()))
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            format!("invalid record of table system.role: {expected}")
        );
    }
    let filter = r#"{"data":{"tables":{"T":{"row_filter":{"attribute":"a","comparator":"=","value":1}}}}}"#;
    let refused = RightsChange::read(&role, "r", Some(filter.as_bytes())).unwrap_err();
    assert_eq!(refused.attribute, "data.tables.T.row_filter.comparator");
    let locked_out = RightsChange::read(&role, "super_user", Some(br#"{"super_user":false}"#)).unwrap_err();
    assert_eq!(locked_out.attribute, "super_user");

    let user = TableName::system_user();
    for (record, attribute) in [
        ("{}", "role"),
        (r#"{"role":""}"#, "role"),
        (r#"{"role":"a","x":1}"#, "x"),
    ] {
        let refused = RightsChange::read(&user, "u", Some(record.as_bytes())).unwrap_err();
        assert_eq!(refused.attribute, attribute);
    }
}

fn view(table: &str, principal: &Principal) -> TableView {
    let role = rights(AccessMode::Roles).role_of(principal);
    TableView::new(&role, principal, &TableName::new("data", table))
}

fn shown(view: &TableView, record: &str) -> Option<String> {
    let shown = view.show(&Bytes::copy_from_slice(record.as_bytes()))?;
    Some(String::from_utf8(shown.to_vec()).unwrap())
}

#[test]
fn b_14_9_a_record_is_there_where_the_row_filter_holds_and_without_what_may_not_be_read() {
    let in_team = |name: &str| Principal {
        attributes: [("team".to_owned(), "red".to_owned())].into(),
        ..principal(name, "clerk")
    };
    for (who, record, is_there) in [
        (principal("alice", ""), r#"{"owner":"alice"}"#, true),
        (principal("alice", ""), r#"{"owner":"bob"}"#, false),
        (principal("alice", ""), "{}", false),
        (principal("alice", ""), r#"{"teams":["red"]}"#, false),
        (
            in_team("alice"),
            r#"{"owner":"bob","teams":["blue","red"]}"#,
            true,
        ),
        (in_team("alice"), r#"{"teams":["blue"]}"#, false),
        // The anonymous principal owns nothing, not even what an empty name owns.
        (principal("", "clerk"), r#"{"owner":""}"#, false),
        (principal("", "clerk"), "{}", false),
        (in_team(""), r#"{"teams":["red"]}"#, true),
    ] {
        assert_eq!(
            shown(&view("Own", &who), record),
            is_there.then(|| record.to_owned()),
            "{who:?}"
        );
    }
    let product = view("Product", &principal("alice", ""));
    let record = r#"{"id":"1","secret":"x","price":1.0}"#;
    assert_eq!(shown(&product, record).unwrap(), r#"{"id":"1","price":1.0}"#);
    let all = view("Own", &principal("", "super_user"));
    assert_eq!(shown(&all, record).unwrap(), record);
}

#[test]
fn b_5_9_a_change_is_seen_as_that_of_the_records_that_are_there() {
    use proto::feed::v1::{Change, Operation};
    let own = view("Own", &principal("alice", ""));
    let (mine, other) = (r#"{"owner":"alice"}"#, r#"{"owner":"bob"}"#);
    for (before, after, expected) in [
        ("", mine, Some((Operation::Insert, "", mine))),
        (mine, mine, Some((Operation::Update, mine, mine))),
        (mine, "", Some((Operation::Delete, mine, ""))),
        (mine, other, Some((Operation::Delete, mine, ""))),
        (other, mine, Some((Operation::Insert, "", mine))),
        (other, other, None),
        ("", other, None),
        (other, "", None),
    ] {
        let change = Change {
            before: Bytes::from(before),
            after: Bytes::from(after),
            ..Change::default()
        };
        let seen = show_change(&own, change.clone(), ShownValues::Kept);
        let seen = seen.map(|seen| (seen.operation(), seen.before, seen.after));
        let expected_values =
            expected.map(|(operation, before, after)| (operation, Bytes::from(before), Bytes::from(after)));
        assert_eq!(seen, expected_values, "{before} -> {after}");
        let seen = show_change(&own, change, ShownValues::LeftOut);
        let seen = seen.map(|seen| (seen.operation(), seen.before.len() + seen.after.len()));
        assert_eq!(seen, expected.map(|(operation, _, _)| (operation, 0)));
    }
}

#[test]
fn the_attributes_of_all_row_filters_are_known() {
    let attributes = |rights: &Rights, table| {
        let found = rights.filter_attributes(&TableName::new("data", table));
        found.map(|found| found.iter().cloned().collect::<Vec<_>>())
    };
    let before = rights(AccessMode::Roles);
    assert_eq!(attributes(&before, "Own").unwrap(), ["owner", "teams"]);
    assert_eq!(attributes(&before, "Product"), None);
    let second = r#"{"data":{"tables":{"Own":{"row_filter":{"attribute":"a.b","value":1}}}}}"#;
    let both = before.changed([change(&TableName::system_role(), "second", second)]);
    assert_eq!(attributes(&both, "Own").unwrap(), ["a", "owner", "teams"]);
    let gone = |name: &str| RightsChange::Role(name.to_owned(), None);
    assert!(!both.changed([gone("second"), gone("clerk")]).has_filters());
    assert!(both.has_filters(), "a snapshot stays what it is");
}

/// Reads the JSON of a role as its words say, right at each question.
fn naive(role: &Value, action: &str, table: &str, attribute: Option<&str>) -> bool {
    if role["super_user"] == json!(true) {
        return true;
    }
    let table = &role["data"]["tables"][table];
    let may = |rights: &Value| match action {
        "describe" => rights["describe"] == json!(true) || rights["read"] == json!(true),
        _ => rights[action] == json!(true),
    };
    let Some(attribute) = attribute else {
        return may(table);
    };
    let entries = table["attribute_permissions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let right = if action == "describe" { "read" } else { action };
    let entry = entries
        .iter()
        .find(|entry| entry["attribute_name"] == json!(attribute));
    may(table) && (action == "delete" || entry.is_none_or(|entry| entry[right] == json!(true)))
}

/// An object with some of these members, each true or false.
fn flags(names: &'static [&'static str]) -> impl Strategy<Value = serde_json::Map<String, Value>> {
    proptest::collection::vec(proptest::option::of(any::<bool>()), names.len()).prop_map(|values| {
        let named = names.iter().zip(values);
        named
            .filter_map(|(name, value)| Some(((*name).to_owned(), json!(value?))))
            .collect()
    })
}

fn table_rights() -> impl Strategy<Value = Value> {
    let attributes = proptest::collection::vec(proptest::option::of(flags(&["read", "insert", "update"])), 2);
    (
        flags(&["read", "insert", "update", "delete", "describe"]),
        proptest::option::of(attributes),
    )
        .prop_map(|(mut rights, attributes)| {
            if let Some(attributes) = attributes {
                let named = ["a", "b"].iter().zip(attributes);
                let entries: Vec<Value> = named
                    .filter_map(|(name, rights)| {
                        let mut entry = rights?;
                        entry.insert("attribute_name".to_owned(), json!(name));
                        Some(Value::Object(entry))
                    })
                    .collect();
                rights.insert("attribute_permissions".to_owned(), json!(entries));
            }
            Value::Object(rights)
        })
}

fn any_role() -> impl Strategy<Value = Value> {
    let tables = proptest::collection::vec(proptest::option::of(table_rights()), 2);
    (
        flags(&["super_user", "structure_user"]),
        proptest::option::of(tables),
    )
        .prop_map(|(mut role, tables)| {
            if let Some(tables) = tables {
                let named = ["T", "U"].iter().zip(tables);
                let tables: serde_json::Map<String, Value> = named
                    .filter_map(|(name, rights)| Some(((*name).to_owned(), rights?)))
                    .collect();
                role.insert("data".to_owned(), json!({ "tables": tables }));
            }
            Value::Object(role)
        })
}

proptest! {
    #[test]
    fn b_14_3_every_decision_is_what_a_naive_reading_of_the_role_says(role in any_role()) {
        let rights = Rights::new(AccessMode::Roles).changed([change(&TableName::system_role(), "r", &role.to_string())]);
        let compiled = rights.role_of(&principal("x", "r"));
        for (action, name) in [
            (Action::Read, "read"),
            (Action::Insert, "insert"),
            (Action::Update, "update"),
            (Action::Delete, "delete"),
            (Action::Describe, "describe"),
        ] {
            for table in ["T", "U", "V"] {
                let table_name = TableName::new("data", table);
                let decided = decide(&compiled, action, Object::Table(&table_name)).is_ok();
                prop_assert_eq!(decided, naive(&role, name, table, None), "{} {} {}", name, table, role);
                for attribute in ["a", "b", "c"] {
                    let decided = decide(&compiled, action, Object::Attribute(&table_name, attribute)).is_ok();
                    let expected = naive(&role, name, table, Some(attribute));
                    prop_assert_eq!(decided, expected, "{} {}.{} {}", name, table, attribute, role);
                }
            }
        }
    }
}
