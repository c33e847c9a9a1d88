//! Our SVG as a PNG file, through `resvg`.

use std::io;
use std::sync::{Arc, LazyLock};

use fontdb::{Database, ID, Source, Weight};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{FontResolver, ImageHrefResolver, Options, Tree};

use super::font;

/// The pixels of one unit of a picture, for dense screens.
pub(crate) const SCALE: f32 = 2.0;

/// A picture of pixels.
pub(crate) struct Image {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The whole file.
    pub(crate) png: Vec<u8>,
}

/// Draws an SVG of ours.
pub(crate) fn draw(svg: &str, scale: f32) -> io::Result<Image> {
    let tree = Tree::from_str(svg, &options()).map_err(io::Error::other)?;
    let size = tree.size().to_int_size().scale_by(scale);
    let pixels = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixels = pixels.ok_or_else(|| io::Error::other("the picture has no size"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let png = pixels.encode_png().map_err(io::Error::other)?;
    Ok(Image { width: pixels.width(), height: pixels.height(), png })
}

/// The bundled fonts, regular and bold.
static FONTS: LazyLock<(Arc<Database>, [ID; 2])> = LazyLock::new(|| {
    let mut fonts = Database::new();
    let ids = [font::REGULAR, font::BOLD].map(|bytes| {
        let ids = fonts.load_font_source(Source::Binary(Arc::new(bytes)));
        *ids.first().expect("the bundled fonts are fonts")
    });
    (Arc::new(fonts), ids)
});

fn options() -> Options<'static> {
    let (fonts, [regular, bold]) = &*FONTS;
    let or_bold = |weight: u16| if Weight(weight) >= Weight::BOLD { *bold } else { *regular };
    let fallback = FontResolver::default_fallback_selector();
    Options {
        fontdb: Arc::clone(fonts),
        font_resolver: FontResolver {
            select_font: Box::new(move |font, _| Some(or_bold(font.weight()))),
            select_fallback: Box::new(move |missing, used, known| {
                if let Some(found) = fallback(missing, used, known) {
                    return Some(found);
                }
                // Reading the machine's fonts takes longer than drawing, so it is done once, and only if such a character occurs.
                if known.len() == fonts.len() {
                    Arc::make_mut(known).load_system_fonts();
                }
                fallback(missing, used, known)
            }),
        },
        // A picture has no images: no path in a name is opened.
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Options::default()
    }
}
