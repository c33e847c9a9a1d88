//! Pixels as a PNG file: eight bits a colour, no transparency, one stream of compressed rows.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

pub(crate) struct Image {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Three bytes a pixel, row by row.
    pub(crate) rgb: Vec<u8>,
}

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Each row as its difference from the one above, which is mostly none.
const UP: u8 = 2;

pub(crate) fn write(image: &Image, out: &mut impl Write) -> io::Result<()> {
    let side = |pixels: usize| u32::try_from(pixels).map_err(io::Error::other);
    out.write_all(&SIGNATURE)?;
    let mut header = Vec::new();
    header.extend(side(image.width)?.to_be_bytes());
    header.extend(side(image.height)?.to_be_bytes());
    // Eight bits, colours, the only compression, the only set of filters, no interlacing.
    header.extend([8, 2, 0, 0, 0]);
    chunk(*b"IHDR", &header, out)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    let row_bytes = image.width * 3;
    let mut above = vec![0; row_bytes];
    let mut changed = vec![0; row_bytes];
    for row in image.rgb.chunks_exact(row_bytes.max(1)) {
        for (at, each) in changed.iter_mut().enumerate() {
            *each = row[at].wrapping_sub(above[at]);
        }
        packed.write_all(&[UP])?;
        packed.write_all(&changed)?;
        above.copy_from_slice(row);
    }
    chunk(*b"IDAT", &packed.finish()?, out)?;
    chunk(*b"IEND", &[], out)
}

fn chunk(kind: [u8; 4], content: &[u8], out: &mut impl Write) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&kind);
    sum.update(content);
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&kind)?;
    out.write_all(content)?;
    out.write_all(&sum.finalize().to_be_bytes())
}
