//! The enumerations in the kernel's type information (BTF): enough to give numbers their names.
//!
//! The format is in the kernel's Documentation/bpf/btf.rst. The loader relocates by the same data
//! but does not show it.

/// First bytes of every object, in the order of this host.
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type before what its kind adds.
const TYPE: usize = 12;

/// Type information that cannot be read.
#[derive(thiserror::Error, PartialEq, Eq, Debug)]
pub(super) enum BtfError {
    /// It does not begin as it should.
    #[error("it is no type information of this host's byte order")]
    Magic,
    /// It ends too soon.
    #[error("it ends within a type or a table")]
    Short,
    /// A kernel newer than this program.
    #[error("it has a type of kind {0}, which this program does not know")]
    Kind(u32),
}

/// An enumeration: its name, and the names and values of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Enumeration {
    pub(super) name: String,
    pub(super) members: Vec<(String, u32)>,
}

/// Strings of the kernel itself, which those of a module continue.
#[derive(Clone, Copy, Default)]
pub(super) struct Strings<'a> {
    base: &'a [u8],
    own: &'a [u8],
}

impl Strings<'_> {
    /// The string at an offset; empty where there is none.
    fn at(&self, offset: u32) -> String {
        let offset = offset as usize;
        let from = match offset.checked_sub(self.base.len()) {
            None => self.base.get(offset..),
            Some(offset) => self.own.get(offset..),
        };
        let bytes = from.unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// The enumerations of 32 bits whose name `wanted` accepts. `base` is the kernel's object where
/// `data` is a module's.
pub(super) fn enumerations(
    data: &[u8],
    base: Option<&[u8]>,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Enumeration>, BtfError> {
    let (types, own) = sections(data)?;
    let base = base.map_or(Ok(&[][..]), |base| {
        sections(base).map(|(_, strings)| strings)
    })?;
    let strings = Strings { base, own };
    let mut found = Vec::new();
    let mut rest = types;
    while !rest.is_empty() {
        let info = word(rest, 4)?;
        let (kind, number) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let end = TYPE + extra(kind, number)?;
        let members = rest.get(TYPE..end).ok_or(BtfError::Short)?;
        if kind == 6 {
            let name = strings.at(word(rest, 0)?);
            if wanted(&name) {
                found.push(Enumeration {
                    name,
                    members: pairs(members, &strings)?,
                });
            }
        }
        rest = &rest[end..];
    }
    Ok(found)
}

/// Types and strings of an object.
fn sections(data: &[u8]) -> Result<(&[u8], &[u8]), BtfError> {
    let magic = data
        .get(..2)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u16::from_ne_bytes);
    if magic != Some(MAGIC) {
        return Err(BtfError::Magic);
    }
    let body = data.get(word(data, 4)? as usize..).ok_or(BtfError::Short)?;
    let part = |offset: usize| -> Result<&[u8], BtfError> {
        let (start, length) = (
            word(data, offset)? as usize,
            word(data, offset + 4)? as usize,
        );
        let end = start.checked_add(length).ok_or(BtfError::Short)?;
        body.get(start..end).ok_or(BtfError::Short)
    };
    Ok((part(8)?, part(16)?))
}

/// Bytes that follow a type of a kind with so many members.
fn extra(kind: u32, members: usize) -> Result<usize, BtfError> {
    match kind {
        // Pointers, forward declarations, typedefs, qualifiers, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => Ok(0),
        // Integers, variables, declaration tags.
        1 | 14 | 17 => Ok(4),
        // Arrays.
        3 => Ok(12),
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => Ok(12 * members),
        // Enumerations, prototypes.
        6 | 13 => Ok(8 * members),
        _ => Err(BtfError::Kind(kind)),
    }
}

fn pairs(members: &[u8], strings: &Strings<'_>) -> Result<Vec<(String, u32)>, BtfError> {
    let pairs = members
        .chunks_exact(8)
        .map(|pair| Ok((strings.at(word(pair, 0)?), word(pair, 4)?)));
    pairs.collect()
}

fn word(data: &[u8], offset: usize) -> Result<u32, BtfError> {
    let bytes = data
        .get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_ne_bytes).ok_or(BtfError::Short)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An object with these words as types and this text as strings.
    pub(in super::super) fn object(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut data = MAGIC.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            data.extend((word as u32).to_ne_bytes());
        }
        data.extend(&types);
        data.extend(strings);
        data
    }

    #[test]
    fn enumerations_are_found_between_other_types() {
        let structure = [0, 4 << 24 | 1, 8, 0, 0, 0];
        let enumeration = [1, 6 << 24 | 2, 4, 3, 7, 5, 0x2_0001];
        let types: Vec<u32> = structure.into_iter().chain(enumeration).collect();
        let data = object(&types, b"\0e\0a\0b\0");
        let found = enumerations(&data, None, |name| name == "e").unwrap();
        let members = vec![("a".to_string(), 7), ("b".to_string(), 0x2_0001)];
        assert_eq!(
            found,
            [Enumeration {
                name: "e".into(),
                members
            }]
        );
        assert_eq!(enumerations(&data, None, |_| false), Ok(Vec::new()));
    }

    #[test]
    fn a_modules_strings_continue_the_kernels() {
        let kernel = object(&[], b"\0kernel\0");
        let module = object(&[8, 6 << 24 | 1, 4, 1, 3], b"module\0");
        let found = enumerations(&module, Some(&kernel), |_| true).unwrap();
        let members = vec![("kernel".to_string(), 3)];
        assert_eq!(
            found,
            [Enumeration {
                name: "module".into(),
                members
            }]
        );
    }

    #[test]
    fn what_is_not_known_is_told() {
        assert_eq!(enumerations(b"ELF", None, |_| true), Err(BtfError::Magic));
        let data = object(&[0, 31 << 24, 0], b"\0");
        assert_eq!(enumerations(&data, None, |_| true), Err(BtfError::Kind(31)));
        let data = object(&[0, 6 << 24 | 9, 4], b"\0");
        assert_eq!(enumerations(&data, None, |_| true), Err(BtfError::Short));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(
            types in prop::collection::vec(any::<u32>(), 0..40),
            strings in prop::collection::vec(any::<u8>(), 0..40),
            cut in 0usize..300,
        ) {
            let mut data = object(&types, &strings);
            data.truncate(cut);
            let _ = enumerations(&data, Some(&data), |_| true);
        }
    }
}
