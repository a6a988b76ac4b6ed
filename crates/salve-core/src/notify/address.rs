//! Which addresses are the world's and which are somebody's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is one of the public internet.
///
/// What is not: this machine, private and link-local networks, those of carriers, those for
/// documentation and tests, groups, and every way to write one of them as IPv6.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    match ip.octets() {
        // This network, and this machine.
        [0 | 127, ..] => false,
        // Private networks.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => false,
        // Carriers' networks.
        [100, 64..=127, ..] => false,
        // Link-local, where clouds serve their machines' credentials.
        [169, 254, ..] => false,
        // Protocols, documentation, and the way to old relays.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => false,
        // Benchmarks.
        [198, 18 | 19, ..] => false,
        // Groups, reserved, and broadcast.
        [224..=255, ..] => false,
        _ => true,
    }
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // IPv4 in IPv6's clothes: mapped, translated (both ways), and by 6to4.
        [0, 0, 0, 0, 0, 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => {
            is_public_v4(inner(a, b))
        }
        [0x64, 0xff9b, ..] => false,
        [0x2002, a, b, ..] => is_public_v4(inner(a, b)),
        // Only what is handed out for the world is the world's; of that, not the special parts:
        // relays, benchmarks, identifiers, documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

fn inner(a: u16, b: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}
