//! Reading and writing numbers in a block of bytes, and the block's checksum.

/// Appends `value`, seven bits a byte, lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one number that [`put_varint`] wrote off the front of `bytes`.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Returns the `at`-th little-endian `u16` of `bytes`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let chunk = bytes.get(at.checked_mul(2)?..)?.first_chunk()?;
    Some(u16::from_le_bytes(*chunk))
}

/// Returns the `at`-th little-endian `u32` of `bytes`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let chunk = bytes.get(at.checked_mul(4)?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*chunk))
}

/// Returns the `at`-th little-endian `u64` of `bytes`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let chunk = bytes.get(at.checked_mul(8)?..)?.first_chunk()?;
    Some(u64::from_le_bytes(*chunk))
}

/// Returns a checksum of `bytes` that finds accidents, not attacks, several bytes a cycle.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1_u64, 2, 3, 4];
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            *lane = (*lane ^ word).wrapping_mul(PRIME).rotate_left(29);
        }
    }
    let mut sum = bytes.len() as u64;
    for &byte in chunks.remainder() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(PRIME).rotate_left(29);
    }
    lanes.iter().fold(sum, |sum, lane| (sum ^ lane).wrapping_mul(PRIME).rotate_left(31))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_come_back(values: Vec<u32>) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put_varint(&mut bytes, value));
            let mut rest = bytes.as_slice();
            for value in values {
                prop_assert_eq!(take_varint(&mut rest), Some(value));
            }
            prop_assert_eq!(take_varint(&mut rest), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while take_varint(&mut rest).is_some() {}
        }

        #[test]
        fn one_changed_bit_changes_the_checksum(
            mut bytes in prop::collection::vec(any::<u8>(), 1..200),
            at: prop::sample::Index,
            bit in 0..8,
        ) {
            let before = checksum(&bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert_ne!(checksum(&bytes), before);
        }
    }
}
