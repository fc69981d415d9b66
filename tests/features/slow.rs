//! B-4.9: clients that do not read, or not fast enough.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::event_stream::{EventStream, Next};
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, event_id, put};
use crate::harness::{PATIENCE, eventually};

/// More than the buffers of a connection take on both sides together, and than may wait.
const CHANGES: usize = 5_000;

/// How many notices may wait singly; nobody is ended here.
const PATIENT: [(&str, &str); 2] = [("--write-timeout", "1h"), ("--pending", "500")];

/// How many records are changed in turn; the uri of each is long, so that a notice is half a kilobyte.
const KEYS: usize = 20;

const TABLE: &str = "feed+rest://tidegate.test/Item";

fn key(number: usize) -> String {
    format!("{number:0>400}")
}

fn uri(number: usize) -> String {
    format!("{TABLE}/{}", key(number))
}

/// Changes the records in turn, in commits of 500, and calls `between` after each.
fn change_all(stack: &Stack, changes: usize, mut between: impl FnMut()) {
    let truth = stack.truth();
    let numbers: Vec<usize> = (0..changes).map(|number| number % KEYS).collect();
    for numbers in numbers.chunks(500) {
        truth.commit(
            numbers
                .iter()
                .map(|number| put("Item", &key(*number), "{}"))
                .collect(),
        );
        between();
    }
}

/// Returns the event id of each record's newest change, by its uri.
fn newest(stack: &Stack) -> BTreeMap<String, u64> {
    let mut newest = BTreeMap::new();
    for (revision, change) in stack.truth().changes("Item", None) {
        newest.insert(format!("{TABLE}/{}", change.key), event_id(revision, RECORD_SLOT));
    }
    newest
}

/// Reads until each of these was told, and returns how many notices it took.
fn read_up(stream: &mut EventStream, newest: &BTreeMap<String, u64>) -> usize {
    let mut waited_for = newest.clone();
    let mut count = 0;
    while !waited_for.is_empty() {
        let frame = stream.message();
        count += 1;
        if let Some(uri) = frame.updated_uri()
            && waited_for.get(&uri) == Some(&frame.number())
        {
            waited_for.remove(&uri);
        }
    }
    count
}

fn memory_kib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    size.and_then(|size| size.trim().parse().ok())
        .expect("the memory in kB")
}

#[test]
fn field_case_a19_b_4_9_bounded_readers_that_stall_are_folded_and_hurt_nobody() {
    const STALLED: usize = 15;
    let stack = Stack::start_with(1, &[], &PATIENT);
    let gateway = &stack.gateways[0];
    let open = || {
        let client = gateway.client();
        let stream = client.listen_opened();
        for number in 0..KEYS {
            client.subscribe(&uri(number));
        }
        stream
    };
    let mut stalled: Vec<EventStream> = (0..STALLED).map(|_| open()).collect();
    let mut reading = open();
    let before = memory_kib(gateway.service.id());
    let mut seen = 0;
    let mut peak = before;
    change_all(&stack, CHANGES, || {
        // Every change singly, although others read nothing.
        for _ in 0..500 {
            reading.update(&uri(seen % KEYS));
            seen += 1;
        }
        peak = peak.max(memory_kib(gateway.service.id()));
    });
    assert_eq!(seen, CHANGES);
    // The notices are 3 MiB; a copy of them for each stalled reader would be 45 MiB.
    let growth_mib = (peak - before) / 1024;
    assert!(
        growth_mib < 35,
        "{growth_mib} MiB more for {STALLED} stalled readers"
    );
    let told = newest(&stack);
    assert_eq!(told.len(), KEYS);
    for stream in &mut stalled {
        let count = read_up(stream, &told);
        assert!(count < CHANGES, "nothing was folded: {count}");
    }
    // And they are live again.
    change_all(&stack, 100, || {});
    let told = newest(&stack);
    for stream in &mut stalled {
        read_up(stream, &told);
    }
}

#[test]
fn b_4_9_no_uri_is_put_off_for_ever_for_a_reader_that_falls_behind_again_and_again() {
    let stack = Stack::start_with(1, &[], &PATIENT);
    let client = stack.gateways[0].client();
    let mut stream = client.listen_opened();
    client.subscribe(TABLE);
    for number in 0..KEYS {
        client.subscribe(&uri(number));
    }
    // Stalls first, so that it falls behind; then it reads a little after each commit, and falls behind further.
    change_all(&stack, CHANGES, || {});
    let mut last_seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut frames = 0;
    let mut longest: BTreeMap<String, usize> = BTreeMap::new();
    change_all(&stack, 2 * CHANGES, || {
        for _ in 0..100 {
            let uri = stream.message().updated_uri().expect("an update");
            frames += 1;
            let silence = frames - last_seen.insert(uri.clone(), frames).unwrap_or(0);
            let known = longest.entry(uri).or_default();
            *known = silence.max(*known);
        }
    });
    assert_eq!(
        longest.len(),
        KEYS + 1,
        "a uri was never told: {:?}",
        longest.keys()
    );
}

#[test]
fn b_4_9_a_reader_that_takes_nothing_is_ended_as_slow_and_resumes_with_nothing_lost() {
    let stack = Stack::start_with(2, &[], &[("--write-timeout", "1s"), ("--pending", "500")]);
    let client = stack.client();
    let mut stream = client.listen_opened();
    for number in 0..KEYS {
        client.subscribe(&uri(number));
    }
    change_all(&stack, CHANGES, || {});
    let truth = stack.truth();
    eventually("the stream of the reader is ended", || {
        match truth.session(&client.session) {
            Some(session) if session.owner_instance.is_empty() => Ok(()),
            other => Err(format!("{:?}", other.map(|session| session.owner_instance))),
        }
    });
    // Reading on it finds what was written before, and a clean end.
    loop {
        match stream.next_within(PATIENCE) {
            Next::Frame(_) | Next::Comment => {}
            Next::End => break,
            other => panic!("expected a clean end, got {other:?}"),
        }
    }
    let last = stream.last_id.unwrap();
    let mut resumed = client.on(stack.gateways[1].application).resume(last);
    read_up(&mut resumed, &newest(&stack));
    resumed.opening();
}

/// Returns how many bytes wait in the kernel on the connections of this listener, on both sides.
fn in_the_kernel(address: SocketAddr) -> u64 {
    let connections = std::fs::read_to_string("/proc/net/tcp").expect("the connections");
    let port = format!(":{:04X}", address.port());
    let queued = connections.lines().filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, remote) = (columns.next()?, columns.next()?);
        let (sent, received) = columns.nth(1)?.split_once(':')?;
        let is_of_it = local.ends_with(&port) || remote.ends_with(&port);
        let size = |hexadecimal| u64::from_str_radix(hexadecimal, 16).expect("a size");
        is_of_it.then(|| size(sent) + size(received))
    });
    queued.sum()
}

#[test]
fn b_4_1_a_woken_owner_with_frames_waiting_writes_nothing_more() {
    const CHANGES: usize = 8_000;
    let patient = [("--write-timeout", "1h"), ("--set", "replay.catch_up=100000")];
    let stack = Stack::start_with(2, &[], &patient);
    let client = stack.client();
    let mut first = client.listen_opened();
    let last = first.last_id.expect("an opening block has an id");
    client.subscribe(&format!("feed+rest://{}/Item", "h".repeat(600)));
    change_all(&stack, CHANGES, || {});
    stack.gateways[0].service.pause();
    let mut second = client.on(stack.gateways[1].application).resume(last);
    let mut replayed = 0;
    while !second.frame().is_position() {
        replayed += 1;
    }
    assert_eq!(replayed, CHANGES);
    // What the kernel had taken comes without its writer.
    let mut taken = 0;
    let address = stack.gateways[0].application;
    eventually("what the kernel had taken is read", || {
        while let Next::Frame(_) | Next::Comment = first.next_within(Duration::from_millis(200)) {
            taken += 1;
        }
        match in_the_kernel(address) {
            0 => Ok(()),
            left => Err(format!("{left} bytes behind {taken} notices")),
        }
    });
    assert!(taken < CHANGES - 500, "nothing waits in the process: {taken}");
    stack.gateways[0].service.resume();
    // Whether it ends cleanly does not matter; a notice may have been cut.
    let mut further = 0;
    let end = loop {
        match first.next_within(PATIENCE) {
            Next::Frame(_) | Next::Comment => further += 1,
            end => break end,
        }
    };
    assert_eq!(further, 0, "written after the wake, behind {taken}");
    assert!(matches!(end, Next::End | Next::Broken(_)), "{end:?}");
    // And the new owner goes on.
    change_all(&stack, 1, || {});
    second.message();
}
