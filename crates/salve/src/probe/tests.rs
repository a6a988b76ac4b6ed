use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use salve_core::server::health::StatusRange;

use super::*;

/// Serves every connection by a script, each on a thread of its own, as long as the test runs.
fn serve(script: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// Reads a request's header and returns its first line.
fn request(stream: &mut impl Read) -> String {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        seen.push(byte[0]);
    }
    String::from_utf8_lossy(&seen).lines().next().unwrap_or_default().to_owned()
}

/// Answers every request with these bytes, and hangs up.
fn answers(reply: &'static str) -> SocketAddr {
    serve(move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(reply.as_bytes());
    })
}

/// Writes these bytes again and again until the other side has gone.
fn flood(mut stream: TcpStream, start: &[u8], piece: &[u8]) {
    request(&mut stream);
    let mut all_well = stream.write_all(start).is_ok();
    while all_well {
        all_well = stream.write_all(piece).is_ok();
    }
}

fn health(url: impl Into<String>) -> HealthProbe {
    let limit = Duration::from_millis(2000);
    HealthProbe { url: url.into(), expect: Expect::default(), limit }
}

fn at(address: SocketAddr) -> HealthProbe {
    health(format!("http://{address}/"))
}

#[track_caller]
fn fault(health: &HealthProbe) -> Fault {
    let begun = Instant::now();
    let fault = ask(health).unwrap_err();
    // Twice the limit, because this machine may be busy; without a bound it would be for ever.
    assert!(begun.elapsed() < 2 * health.limit, "{fault}");
    fault
}

#[test]
fn a_page_is_an_answer_and_says_who_gave_it() {
    let address = answers("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let answer = ask(&at(address)).unwrap();
    assert_eq!((answer.status, answer.peer), (200, Some(address)));
    let named = health(format!("http://localhost:{}/", address.port()));
    assert_eq!(ask(&named).unwrap().peer, Some(address));
    let everywhere = health(format!("http://0.0.0.0:{}/", address.port()));
    assert_eq!(ask(&everywhere).unwrap().peer, Some(address));
}

#[test]
fn localhost_is_asked_on_both_kinds_of_address() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let named = health(format!("http://localhost:{}/", address.port()));
    assert_eq!(ask(&named).unwrap().peer, Some(address));
}

#[test]
fn a_server_that_fails_says_so() {
    let broken = answers("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let wanted = StatusRange::default();
    assert_eq!(fault(&at(broken)), Fault::Status { status: 503, wanted });
}

#[test]
fn what_is_expected_can_be_told() {
    let address = answers("HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\nno such page");
    let mut health = at(address);
    health.expect.status = StatusRange { from: 404, to: 404 };
    assert!(ask(&health).is_ok());
    health.expect.body = Some("such".to_owned());
    assert!(ask(&health).is_ok());
    health.expect.body = Some("welcome".to_owned());
    assert_eq!(fault(&health), Fault::Body { lacks: "welcome".to_owned() });
}

#[test]
fn text_is_found_across_pieces_and_in_a_stream_without_end() {
    let address = serve(|mut stream| {
        request(&mut stream);
        let _ = stream.set_nodelay(true);
        let pieces = ["HTTP/1.1 200 OK\r\n\r\nwel", "co", "me"];
        if pieces.iter().all(|piece| stream.write_all(piece.as_bytes()).is_ok()) {
            // Open until the other side hangs up.
            request(&mut stream);
        }
    });
    let mut health = at(address);
    health.expect.body = Some("welcome".to_owned());
    assert!(ask(&health).is_ok());
}

#[test]
fn redirects_on_the_server_are_followed_and_others_are_the_answer() {
    let address = serve(|mut stream| {
        let reply = match &*request(&mut stream) {
            "GET / HTTP/1.1" => {
                "HTTP/1.1 302 Found\r\nLocation: /app/\r\nContent-Length: 0\r\n\r\n"
            }
            "GET /app/ HTTP/1.1" => {
                "HTTP/1.1 307 Moved\r\nLocation: page?x=1#top\r\nContent-Length: 0\r\n\r\n"
            }
            "GET /app/page?x=1 HTTP/1.1" => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            _ => {
                "HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nContent-Length: 0\r\n\r\n"
            }
        };
        let _ = stream.write_all(reply.as_bytes());
    });
    let wanted = StatusRange::default();
    assert_eq!(fault(&at(address)), Fault::Status { status: 500, wanted });
    assert_eq!(ask(&health(format!("http://{address}/login"))).unwrap().status, 302);
    let mut first = at(address);
    first.expect.status = StatusRange { from: 302, to: 302 };
    assert_eq!(ask(&first).unwrap().status, 302);
}

#[test]
fn redirects_for_ever_are_a_fault() {
    let address = answers("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(fault(&at(address)), Fault::Redirects { followed: MOST_REDIRECTS });
}

#[test]
fn an_answer_for_ever_is_a_fault_fast_or_slow() {
    let fast = serve(|stream| flood(stream, b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 65536]));
    assert!(matches!(fault(&at(fast)), Fault::Endless { bytes } if bytes >= 1 << 20));
    let slow = serve(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(matches!(fault(&at(slow)), Fault::Endless { bytes } if bytes < 1 << 20));
}

#[test]
fn a_long_page_with_an_end_and_a_stream_of_events_are_healthy() {
    let long = serve(|stream| {
        flood(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", &[b'x'; 65536]);
    });
    let patient = HealthProbe { limit: Duration::from_secs(20), ..at(long) };
    assert!(ask(&patient).is_ok());
    let events = serve(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        request(&mut stream);
    });
    assert!(ask(&at(events)).is_ok());
}

#[test]
fn an_answer_that_breaks_off_is_a_fault() {
    let address = answers("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhalf");
    assert_eq!(fault(&at(address)), Fault::BrokeOff { bytes: 4 });
}

#[test]
fn garbage_is_a_fault() {
    let address = answers("\x00\x01\x02 SSH-2.0-server 99 nonsense\r\n\r\n");
    assert_eq!(fault(&at(address)), Fault::Garbage);
    let endless = serve(|stream| flood(stream, b"", &[0xfe; 4096]));
    assert!(matches!(fault(&at(endless)), Fault::Garbage | Fault::LongHeader { .. }));
}

#[test]
fn nobody_there_is_a_fault() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(fault(&at(address)), Fault::Refused);
    for wrong in ["ftp://localhost/", "localhost:3000", "http://", "http:///x", "no url"] {
        assert!(matches!(fault(&health(wrong)), Fault::Unreachable(_)), "{wrong}");
    }
}

#[test]
fn silence_is_a_fault_however_it_is_kept() {
    let within = Duration::from_millis(2000);
    // Never even accepted: the kernel's queue takes the connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = listener.local_addr().unwrap();
    assert_eq!(fault(&at(deaf)), Fault::Silent { within });
    let mute = serve(|mut stream| drop(request(&mut stream) + &request(&mut stream)));
    assert_eq!(fault(&at(mute)), Fault::Silent { within });
    let drip = serve(|mut stream| {
        request(&mut stream);
        let mut header = b"HTTP/1.1 200 OK\r\nX: ".iter().chain([&b'y'; 1000]);
        while header.next().is_some_and(|byte| stream.write_all(&[*byte]).is_ok()) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(fault(&at(drip)), Fault::Silent { within });
}

#[test]
fn one_who_hangs_up_is_a_fault() {
    let address = serve(|mut stream| drop(request(&mut stream)));
    assert_eq!(fault(&at(address)), Fault::Closed);
}

#[test]
fn a_header_without_end_is_a_fault() {
    let address = serve(|stream| flood(stream, b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"));
    assert!(matches!(fault(&at(address)), Fault::LongHeader { .. }));
    let one = serve(|stream| flood(stream, b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; 4096]));
    assert!(matches!(fault(&at(one)), Fault::LongHeader { .. }));
}

/// Serves TLS with a certificate that nobody has signed.
fn tls() -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    serve(move |stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        if !request(&mut stream).is_empty() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    })
}

#[test]
fn a_certificate_of_ones_own_will_do_on_this_machine() {
    let address = tls();
    let answer = ask(&health(format!("https://localhost:{}/", address.port()))).unwrap();
    assert_eq!((answer.status, answer.peer), (200, Some(address)));
}

#[test]
fn a_certificate_of_ones_own_will_not_do_elsewhere() {
    let address = tls();
    let asked = http::ProbeRequest {
        url: &format!("https://{address}/"),
        name: None,
        // As for any host that is not known to be this machine.
        peer: None,
        text: None,
    };
    let clock =
        http::Clock { end: Instant::now() + Duration::from_secs(5), limit: Duration::from_secs(5) };
    assert!(http::once(asked, &clock).is_err());
}

#[test]
fn tls_and_plain_text_do_not_meet() {
    let secure = tls();
    assert_eq!(fault(&at(secure)), Fault::SpeaksTls);
    let plain = serve(|mut stream| {
        let _ = stream.read(&mut [0; 16]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let fault = fault(&health(format!("https://{plain}/")));
    assert!(matches!(fault, Fault::NoTls(_)), "{fault:?}");
}

#[test]
fn a_listening_socket_is_known_by_its_process() {
    let me = std::process::id();
    let (one, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
    let (one, other) = (one.local_addr().map(|a| (a, one)), other.local_addr().map(|a| (a, other)));
    let ((one, _open), (other, _also)) = (one.unwrap(), other.unwrap());
    let mine = listeners(&[vec![me]]).concat();
    assert!(mine.contains(&one) && mine.contains(&other), "{mine:?}");
    assert_eq!(listeners(&[vec![]]), [[]]);
    let asked = SocketAddr::new("127.0.0.1".parse().unwrap(), other.port());
    assert_eq!(owner(asked, &[me]), Owner::Ours { pid: me });
    // What other tests start holds the socket too between fork and exec.
    let is_mine = |found: &PortHolder| {
        let here = std::env::current_dir().ok();
        found.pid == me && found.cwd == here && !found.command.is_empty()
    };
    await_that(|| holder(one.port()).is_some_and(|found| is_mine(&found)));
    await_that(|| matches!(owner(one, &[1]), Owner::Other(found) if is_mine(&found)));
}

/// Waits until something holds, for as long as a busy machine may take.
#[track_caller]
fn await_that(holds: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "it never held");
        std::thread::yield_now();
    }
}

#[test]
fn a_port_that_nobody_holds_has_no_holder() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(owner(gone, &[std::process::id()]), Owner::Nobody);
    assert_eq!(holder(gone.port()), None);
}
