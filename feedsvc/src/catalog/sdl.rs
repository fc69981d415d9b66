//! Reads tables from GraphQL SDL. All errors of all files are reported at once, each with its place.
//!
//! Only the syntax tree is GraphQL's; which directives and types there are is the project's own:
//!
//! ```graphql
//! "What is for sale."
//! type Product @table(database: "data", open: false) @export(name: "Product") {
//!   id: ID @primaryKey
//!   name: String! @indexed
//!   made: Date @createdTime
//!   changed: Date @updatedTime
//! }
//! ```

use std::collections::HashMap;

use apollo_compiler::Node;
use apollo_compiler::ast::{
    Definition, Directive, DirectiveList, Document, FieldDefinition, ObjectTypeDefinition, Type, Value,
};
use apollo_compiler::parser::{SourceMap, SourceSpan};

use super::SYSTEM_DATABASE;
use super::model::{Attribute, AttributeType, Shape, TableDefinition, TableName};
use super::problem::{SchemaError, SchemaProblem};
use super::scalar::Scalar;

/// How deep a schema document may nest; far above any that people write.
const RECURSION_LIMIT: usize = 200;
/// How many tokens a schema document may have; a thousand large tables have about a fifth of it.
const TOKEN_LIMIT: usize = 1_000_000;
/// The database of a table that names none.
const DEFAULT_DATABASE: &str = "data";
/// First segments of paths that the gateway serves itself (rules B-1.2 and B-1.5).
const RESERVED_PATHS: &[&str] = &[
    "mcp",
    "sse",
    "messages",
    "openapi.json",
    ".well-known",
    "operations",
];
/// The most indexes of a table: every write of a record writes to all of them.
const INDEXES_MAX: usize = 32;
/// The longest path of a table, in bytes.
const PATH_LIMIT_BYTES: usize = 200;

/// Reads the tables of documents, each with the name of its file, sorted by database and name.
///
/// # Errors
/// Every problem of every document.
pub(crate) fn parse_documents(documents: &[(String, String)]) -> Result<Vec<TableDefinition>, SchemaError> {
    let mut reader = Reader::default();
    for (file, text) in documents {
        reader.read(file, text);
    }
    if reader.problems.is_empty() {
        reader.tables.sort_by_key(TableDefinition::name);
        return Ok(reader.tables);
    }
    Err(SchemaError::new(reader.problems))
}

#[derive(Default)]
struct Reader {
    tables: Vec<TableDefinition>,
    problems: Vec<SchemaProblem>,
    /// Where each name and each path was declared first.
    names: HashMap<TableName, String>,
    paths: HashMap<String, String>,
}

/// The document that is being read, to tell places in it.
struct Source<'a> {
    file: &'a str,
    sources: &'a SourceMap,
}

impl Source<'_> {
    fn place(&self, span: Option<SourceSpan>) -> (usize, usize) {
        span.and_then(|span| span.line_column(self.sources))
            .map_or((1, 1), |place| (place.line, place.column))
    }
}

impl Reader {
    fn read(&mut self, file: &str, text: &str) {
        let mut parser = apollo_compiler::parser::Parser::new()
            .recursion_limit(RECURSION_LIMIT)
            .token_limit(TOKEN_LIMIT);
        let document: Document = match parser.parse_ast(text, file) {
            Ok(document) => document,
            Err(failed) => {
                for diagnostic in failed.errors.iter() {
                    let place = diagnostic.line_column_range().map(|range| range.start);
                    let (line, column) = place.map_or((1, 1), |place| (place.line, place.column));
                    self.problems.push(SchemaProblem {
                        file: file.to_owned(),
                        line,
                        column,
                        message: diagnostic.error.to_string(),
                    });
                }
                // What could be parsed is read all the same, so that its errors are reported too.
                failed.partial
            }
        };
        let source = Source {
            file,
            sources: &document.sources,
        };
        let first_problem = self.problems.len();
        for definition in &document.definitions {
            match definition {
                Definition::ObjectTypeDefinition(object) => self.read_table(&source, object),
                // Editors want scalars and directives to be declared; the known ones may be.
                Definition::ScalarTypeDefinition(scalar) if Scalar::find(&scalar.name).is_some() => {}
                Definition::DirectiveDefinition(directive)
                    if KNOWN_DIRECTIVES.contains(&directive.name.as_str()) => {}
                other => {
                    let message = "only types with @table can stand in a schema".to_owned();
                    self.report(&source, other.location(), message);
                }
            }
        }
        // In the order in which a reader goes through the file.
        self.problems[first_problem..].sort_by_key(|problem| (problem.line, problem.column));
    }

    fn read_table(&mut self, source: &Source<'_>, object: &Node<ObjectTypeDefinition>) {
        let problem_count = self.problems.len();
        let span = object.name.location();
        let mut database = DEFAULT_DATABASE.to_owned();
        let mut open = false;
        let mut path = None;
        let mut is_table = false;
        for directive in self.distinct(source, &object.directives) {
            match directive.name.as_str() {
                "table" => {
                    is_table = true;
                    let arguments = self.arguments(source, directive, &["database", "open"]);
                    if let Some(value) = arguments.get("database") {
                        database = self.text(source, value).unwrap_or(database);
                        self.check_database(source, value, &database);
                    }
                    if let Some(value) = arguments.get("open") {
                        open = self.flag(source, value).unwrap_or(open);
                    }
                }
                "export" => {
                    let arguments = self.arguments(source, directive, &["name"]);
                    let name = arguments.get("name");
                    let given = name.and_then(|value| self.text(source, value));
                    let chosen = given.unwrap_or_else(|| object.name.to_string());
                    let place = name.map_or(directive.location(), |value| value.location());
                    self.check_path(source, place, &chosen);
                    path = Some(chosen);
                }
                _ => self.unknown_directive(source, directive, "a type", "@table, @export"),
            }
        }
        if !is_table {
            self.report(source, span, format!("type `{}` has no @table", object.name));
        }
        if let Some(interface) = object.implements_interfaces.first() {
            self.report(
                source,
                interface.location(),
                "a table implements no interface".to_owned(),
            );
        }
        let attributes = self.read_attributes(source, object);
        let definition = TableDefinition {
            database,
            table: object.name.to_string(),
            path,
            description: text_of(object.description.as_ref()),
            open,
            attributes,
        };
        let place = self.first_of(source, span);
        if let Some(first) = self.names.insert(definition.name(), place) {
            let message = format!("table {} is declared twice, first at {first}", definition.name());
            self.report(source, span, message);
        }
        if self.problems.len() == problem_count {
            self.tables.push(definition);
        }
    }

    fn read_attributes(
        &mut self,
        source: &Source<'_>,
        object: &Node<ObjectTypeDefinition>,
    ) -> Vec<Attribute> {
        let mut attributes: Vec<Attribute> = Vec::new();
        let mut has_primary_key = false;
        for field in &object.fields {
            let attribute = self.read_attribute(source, field);
            if attributes.iter().any(|other| *other.name == *field.name) {
                let message = format!("attribute `{}` is declared twice", field.name);
                self.report(source, field.name.location(), message);
            }
            let is_primary_key = field.directives.get("primaryKey").is_some();
            if is_primary_key && has_primary_key {
                self.report(
                    source,
                    field.name.location(),
                    "a table has one @primaryKey only".to_owned(),
                );
            }
            has_primary_key |= is_primary_key;
            attributes.extend(attribute);
        }
        let indexed_count = attributes.iter().filter(|attribute| attribute.indexed).count();
        if indexed_count > INDEXES_MAX {
            let message =
                format!("a table has at most {INDEXES_MAX} @indexed attributes, this one {indexed_count}");
            self.report(source, object.name.location(), message);
        }
        if !has_primary_key {
            let message = format!("type `{}` has no attribute with @primaryKey", object.name);
            self.report(source, object.name.location(), message);
        }
        attributes
    }

    fn read_attribute(&mut self, source: &Source<'_>, field: &Node<FieldDefinition>) -> Option<Attribute> {
        if let Some(argument) = field.arguments.first() {
            self.report(
                source,
                argument.location(),
                "an attribute has no arguments".to_owned(),
            );
        }
        let (mut primary_key, mut created_time, mut updated_time) = (false, false, false);
        let mut indexed = false;
        for directive in self.distinct(source, &field.directives) {
            let flag = match directive.name.as_str() {
                "primaryKey" => &mut primary_key,
                "createdTime" => &mut created_time,
                "updatedTime" => &mut updated_time,
                "indexed" => &mut indexed,
                _ => {
                    let known = "@primaryKey, @createdTime, @updatedTime, @indexed";
                    self.unknown_directive(source, directive, "an attribute", known);
                    continue;
                }
            };
            *flag = true;
            self.arguments(source, directive, &[]);
        }
        let attribute_type = match read_type(&field.ty) {
            Ok(attribute_type) => attribute_type,
            Err(unknown) => {
                let message = format!("unknown type `{unknown}`; known are {}", Scalar::NAMES.join(", "));
                self.report(source, field.ty.inner_named_type().location(), message);
                return None;
            }
        };
        let span = field.name.location();
        let scalar = match &attribute_type.shape {
            Shape::Scalar(scalar) => Some(*scalar),
            Shape::List(_) => None,
        };
        if primary_key && !scalar.is_some_and(Scalar::is_key) {
            let message =
                format!("a primary key cannot be {attribute_type}; use ID, String, Int, Long or BigInt");
            self.report(source, span, message);
        }
        if (created_time || updated_time)
            && !matches!(scalar, Some(Scalar::Date | Scalar::String | Scalar::Any))
        {
            let message = format!("a time that the service fills in cannot be {attribute_type}; use Date");
            self.report(source, span, message);
        }
        if indexed && scalar.is_none() {
            let message = format!(
                "a list cannot be indexed, and `{}` is {attribute_type}",
                field.name
            );
            self.report(source, span, message);
        }
        if usize::from(primary_key) + usize::from(created_time) + usize::from(updated_time) > 1 {
            let message = "only one of @primaryKey, @createdTime and @updatedTime can stand here".to_owned();
            self.report(source, span, message);
        }
        Some(Attribute {
            name: field.name.to_string(),
            attribute_type,
            description: text_of(field.description.as_ref()),
            primary_key,
            created_time,
            updated_time,
            indexed,
        })
    }

    /// Returns the directives without repetitions, which are reported.
    fn distinct<'d>(
        &mut self,
        source: &Source<'_>,
        directives: &'d DirectiveList,
    ) -> Vec<&'d Node<Directive>> {
        let mut distinct: Vec<&Node<Directive>> = Vec::new();
        for directive in directives.iter() {
            if distinct.iter().any(|other| other.name == directive.name) {
                self.report(
                    source,
                    directive.location(),
                    format!("@{} stands here twice", directive.name),
                );
            } else {
                distinct.push(directive);
            }
        }
        distinct
    }

    /// Returns a directive's arguments by name; unknown and repeated ones are reported.
    fn arguments<'d>(
        &mut self,
        source: &Source<'_>,
        directive: &'d Directive,
        known: &[&str],
    ) -> HashMap<&'d str, &'d Node<Value>> {
        let mut arguments = HashMap::new();
        for argument in &directive.arguments {
            let name = argument.name.as_str();
            if !known.contains(&name) {
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                let message = format!("@{} has no argument `{name}`; known: {known}", directive.name);
                self.report(source, argument.location(), message);
            } else if arguments.insert(name, &argument.value).is_some() {
                self.report(
                    source,
                    argument.location(),
                    format!("argument `{name}` stands here twice"),
                );
            }
        }
        arguments
    }

    fn text(&mut self, source: &Source<'_>, value: &Node<Value>) -> Option<String> {
        match value.as_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                self.report(source, value.location(), "expected a string".to_owned());
                None
            }
        }
    }

    fn flag(&mut self, source: &Source<'_>, value: &Node<Value>) -> Option<bool> {
        match value.to_bool() {
            Some(flag) => Some(flag),
            None => {
                self.report(source, value.location(), "expected true or false".to_owned());
                None
            }
        }
    }

    fn check_database(&mut self, source: &Source<'_>, value: &Node<Value>, database: &str) {
        let is_name = !database.is_empty()
            && database.len() <= 64
            && database
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if database == SYSTEM_DATABASE {
            self.report(
                source,
                value.location(),
                format!("database `{database}` is the service's own"),
            );
        } else if !is_name {
            let message = format!("`{database}` is no database name; use 1 to 64 letters, digits, _ and -");
            self.report(source, value.location(), message);
        }
    }

    fn check_path(&mut self, source: &Source<'_>, span: Option<SourceSpan>, path: &str) {
        let is_plain = |character: char| character.is_alphanumeric() || "_-.~".contains(character);
        let is_path = path.len() <= PATH_LIMIT_BYTES
            && path
                .split('/')
                .all(|segment| !matches!(segment, "" | "." | "..") && segment.chars().all(is_plain));
        if !is_path {
            let message = format!(
                "`{path}` is no path; use segments of letters, digits, _, -, . and ~ with / between them, \
                 at most {PATH_LIMIT_BYTES} bytes"
            );
            self.report(source, span, message);
        }
        let first_segment = path.split('/').next().unwrap_or_default();
        if RESERVED_PATHS.contains(&first_segment) {
            self.report(
                source,
                span,
                format!("path `{path}` is reserved; choose another with @export(name: …)"),
            );
        }
        let place = self.first_of(source, span);
        if let Some(first) = self.paths.insert(path.to_owned(), place) {
            self.report(
                source,
                span,
                format!("path `{path}` is exported twice, first at {first}"),
            );
        }
    }

    fn unknown_directive(
        &mut self,
        source: &Source<'_>,
        directive: &Node<Directive>,
        place: &str,
        known: &str,
    ) {
        let message = format!(
            "unknown directive @{} on {place}; known are {known}",
            directive.name
        );
        self.report(source, directive.location(), message);
    }

    fn first_of(&self, source: &Source<'_>, span: Option<SourceSpan>) -> String {
        let (line, column) = source.place(span);
        format!("{}:{line}:{column}", source.file)
    }

    fn report(&mut self, source: &Source<'_>, span: Option<SourceSpan>, message: String) {
        let (line, column) = source.place(span);
        self.problems.push(SchemaProblem {
            file: source.file.to_owned(),
            line,
            column,
            message,
        });
    }
}

/// The directives that a schema may declare, for editors.
const KNOWN_DIRECTIVES: &[&str] = &[
    "table",
    "export",
    "primaryKey",
    "createdTime",
    "updatedTime",
    "indexed",
];

/// Reads a type, or returns the name in it that is none.
fn read_type(parsed: &Type) -> Result<AttributeType, String> {
    let (shape, is_nullable) = match parsed {
        Type::Named(name) | Type::NonNullNamed(name) => match Scalar::find(name) {
            Some(scalar) => (Shape::Scalar(scalar), matches!(parsed, Type::Named(_))),
            None => return Err(name.to_string()),
        },
        Type::List(item) => (Shape::List(Box::new(read_type(item)?)), true),
        Type::NonNullList(item) => (Shape::List(Box::new(read_type(item)?)), false),
    };
    Ok(AttributeType { shape, is_nullable })
}

fn text_of(description: Option<&Node<str>>) -> String {
    description.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::parse_documents;

    fn errors(sdl: &str) -> String {
        match parse_documents(&[("a.graphql".to_owned(), sdl.to_owned())]) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_table_is_read_with_all_it_says() {
        let sdl = r#"
            scalar Long
            "What is for sale."
            type Product @table(database: "shop", open: true) @export {
                "Its number."
                id: Long! @primaryKey @indexed
                tags: [String!]!
            }
            type Hidden @table { id: ID @primaryKey }
        "#;
        let tables = parse_documents(&[("a.graphql".to_owned(), sdl.to_owned())]).unwrap();
        let text = serde_json::to_string(&tables).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"[{"database":"data","name":"Hidden","attributes":[{"name":"id","type":"ID","primaryKey":true}]},"#,
                r#"{"database":"shop","name":"Product","path":"Product","description":"What is for sale.","open":true,"#,
                r#""attributes":[{"name":"id","type":"Long!","description":"Its number.","primaryKey":true,"indexed":true},"#,
                r#"{"name":"tags","type":"[String!]!"}]}]"#
            )
        );
        assert_eq!(
            serde_json::from_str::<Vec<super::TableDefinition>>(&text).unwrap(),
            tables
        );
    }

    #[test]
    fn all_errors_are_reported_at_once_with_their_places() {
        let sdl = "\
type A @table(size: 1) @export(name: \"mcp\") { id: ID }
type B @table @export(name: \"x\") { id: Foo @primaryKey }
type C @table @export(name: \"x\") { id: Float @primaryKey @index  l: [ID] @indexed }
type D { id: ID @primaryKey }
enum E { X }
type F @table(database: \"system\") { id: ID @primaryKey id: ID }
";
        assert_eq!(
            errors(sdl),
            "\
cannot use the schema: 12 errors found; correct the places below
  a.graphql:1:6: type `A` has no attribute with @primaryKey
  a.graphql:1:15: @table has no argument `size`; known: database, open
  a.graphql:1:38: path `mcp` is reserved; choose another with @export(name: …)
  a.graphql:2:40: unknown type `Foo`; known are ID, String, Int, Long, BigInt, Float, Boolean, Date, Bytes, Any
  a.graphql:3:29: path `x` is exported twice, first at a.graphql:2:29
  a.graphql:3:36: a primary key cannot be Float; use ID, String, Int, Long or BigInt
  a.graphql:3:58: unknown directive @index on an attribute; known are @primaryKey, @createdTime, @updatedTime, @indexed
  a.graphql:3:66: a list cannot be indexed, and `l` is [ID]
  a.graphql:4:6: type `D` has no @table
  a.graphql:5:1: only types with @table can stand in a schema
  a.graphql:6:25: database `system` is the service's own
  a.graphql:6:56: attribute `id` is declared twice"
        );
    }

    #[test]
    fn errors_of_syntax_and_of_other_files_come_together() {
        let documents = [
            ("a.graphql".to_owned(), "type A @table {".to_owned()),
            ("b.graphql".to_owned(), "type B @table { x: ID }".to_owned()),
        ];
        let text = parse_documents(&documents).unwrap_err().to_string();
        assert!(text.contains("a.graphql:1:"), "{text}");
        assert!(
            text.contains("b.graphql:1:6: type `B` has no attribute with @primaryKey"),
            "{text}"
        );
    }
}
