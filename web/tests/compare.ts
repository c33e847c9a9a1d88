// Whether two pictures show the same. A browser decodes them: no library is needed for that.

import type { Browser } from "playwright-core";

export interface Difference {
  /** The share of pixels that are clearly of another colour, 0 to 1; all where the sizes differ. */
  readonly share: number;
  readonly sizes: string;
}

/** Less than so much in every channel is how letters are smoothed, not what is shown. */
const CLEARLY = 48;

export async function difference(
  browser: Browser,
  one: Buffer,
  other: Buffer,
): Promise<Difference> {
  const page = await browser.newPage();
  try {
    return await page.evaluate(compared, {
      pictures: [one, other].map((png) => `data:image/png;base64,${png.toString("base64")}`),
      clearly: CLEARLY,
    });
  } finally {
    await page.close();
  }
}

async function compared({ pictures, clearly }: { pictures: string[]; clearly: number }) {
  const pixels = async (address: string) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    if (!context) throw new Error("no canvas");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = await Promise.all(pictures.map(pixels));
  if (!one || !other) throw new Error("two pictures are compared");
  const sizes = [one, other].map((data) => `${data.width}×${data.height}`).join(", ");
  if (one.width !== other.width || one.height !== other.height) return { share: 1, sizes };
  let count = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    const apart = [0, 1, 2].map((channel) =>
      Math.abs((one.data[at + channel] ?? 0) - (other.data[at + channel] ?? 0)),
    );
    if (Math.max(...apart) > clearly) count += 1;
  }
  return { share: count / (one.data.length / 4), sizes };
}
