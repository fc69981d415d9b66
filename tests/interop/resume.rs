//! The SDKs as they are used: subscribe, hear of changes, lose the instance, go on at another one, with nothing lost.

use super::sdk_client::{Sdk, SdkClient, Transport};
use crate::harness::stack::Stack;

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

fn check_goes_on_elsewhere(sdk: Sdk) {
    let mut stack = Stack::start(2);
    let Some(mut client) = SdkClient::start(sdk, Transport::Streamable, stack.gateways[0].application) else {
        return;
    };
    client.subscribe(ITEM);
    for name in ["first", "second"] {
        stack.put("Item/7", &format!("{{\"name\":\"{name}\"}}"));
        client.update(ITEM);
    }
    assert!(client.read(ITEM).contains("second"));

    let away = stack.gateways[1].application;
    client.turn_to(away);
    stack.gateways[0].kill();
    for name in ["third", "fourth", "fifth"] {
        stack.put("Item/7", &format!("{{\"name\":\"{name}\"}}"));
    }
    // Each of them, once: the next line would be another one.
    for _ in 0..3 {
        client.update(ITEM);
    }
    stack.put("Item/7", r#"{"name":"sixth"}"#);
    client.update(ITEM);
    assert!(client.read(ITEM).contains("sixth"));
}

fn check_http_sse(sdk: Sdk) {
    let stack = Stack::start(2);
    let Some(mut client) = SdkClient::start(sdk, Transport::HttpSse, stack.gateways[0].application) else {
        return;
    };
    client.subscribe(ITEM);
    stack.put("Item/7", r#"{"name":"first"}"#);
    client.update(ITEM);
    // Its POSTs may go to another instance than its stream.
    client.turn_to(stack.gateways[1].application);
    assert!(client.read(ITEM).contains("first"));
    stack.put("Item/7", r#"{"name":"second"}"#);
    client.update(ITEM);
}

#[test]
fn resumable_the_typescript_sdk_goes_on_at_another_instance_with_nothing_lost() {
    check_goes_on_elsewhere(Sdk::TypeScript);
}

#[test]
fn resumable_the_python_sdk_goes_on_at_another_instance_with_nothing_lost() {
    check_goes_on_elsewhere(Sdk::Python);
}

#[test]
fn the_typescript_sdk_speaks_http_sse() {
    check_http_sse(Sdk::TypeScript);
}

#[test]
fn the_python_sdk_speaks_http_sse() {
    check_http_sse(Sdk::Python);
}
