// Pictures of the page that another machine can compare: without texts, whose fonts differ, and made small.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";

const COMMITTED = join(import.meta.dirname, "pictures");
/** What a committed picture is small by. */
const SMALLER = 4;

export interface Difference {
  /** Of the whole picture, from 0 to 255. */
  readonly mean: number;
  /** Share of the cells that are of another colour. */
  readonly cells: number;
}

/** No text is drawn or written, and nothing blinks. To be called before the page is loaded. */
export async function withoutTexts(page: Page): Promise<void> {
  await page.addInitScript(() => {
    CanvasRenderingContext2D.prototype.fillText = () => {};
    CanvasRenderingContext2D.prototype.strokeText = () => {};
    addEventListener("DOMContentLoaded", () => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(
        "* { color: transparent !important; caret-color: transparent !important; transition: none !important; }",
      );
      document.adoptedStyleSheets = [sheet];
    });
  });
}

/** The view as a small picture. */
export async function smallPicture(browser: Browser, page: Page): Promise<Buffer> {
  const shot = await page.locator("#view").screenshot();
  const painter = await browser.newPage();
  try {
    const url = await painter.evaluate(
      async ([shot, smaller]) => {
        const image = await createImageBitmap(await (await fetch(shot)).blob());
        const [width, height] = [image.width, image.height].map((side) =>
          Math.floor(side / smaller),
        ) as [number, number];
        const canvas = document.createElement("canvas");
        canvas.width = width;
        canvas.height = height;
        const context = canvas.getContext("2d");
        if (!context) throw new Error("no canvas");
        context.imageSmoothingQuality = "high";
        context.drawImage(image, 0, 0, width, height);
        return canvas.toDataURL("image/png");
      },
      [`data:image/png;base64,${shot.toString("base64")}`, SMALLER] as const,
    );
    return Buffer.from(url.slice(url.indexOf(",") + 1), "base64");
  } finally {
    await painter.close();
  }
}

export function committed(name: string): Buffer | null {
  const path = join(COMMITTED, `${name}.png`);
  return existsSync(path) ? readFileSync(path) : null;
}

/** Keeps a picture: as the one to compare with, or beside it, to be looked at. */
export function keep(name: string, picture: Buffer): string {
  const path = join(COMMITTED, `${name}.png`);
  writeFileSync(path, picture);
  return path;
}

/** How far two pictures are apart, looked at through a grid of cells: a line that lies a pixel higher is the same. */
export async function difference(
  browser: Browser,
  one: Buffer,
  other: Buffer,
): Promise<Difference> {
  const page = await browser.newPage();
  try {
    return await page.evaluate(
      async ([one, other]) => {
        const [wide, high] = [80, 40];
        const cells = async (url: string) => {
          const image = await createImageBitmap(await (await fetch(url)).blob());
          const canvas = new OffscreenCanvas(wide, high);
          const context = canvas.getContext("2d");
          if (!context) throw new Error("no canvas");
          context.imageSmoothingQuality = "high";
          context.drawImage(image, 0, 0, wide, high);
          return context.getImageData(0, 0, wide, high).data;
        };
        const [a, b] = [await cells(one), await cells(other)];
        let [sum, apart] = [0, 0];
        for (let at = 0; at < a.length; at += 4) {
          const by = [0, 1, 2].map((part) => Math.abs((a[at + part] ?? 0) - (b[at + part] ?? 0)));
          sum += ((by[0] ?? 0) + (by[1] ?? 0) + (by[2] ?? 0)) / 3;
          if (Math.max(...by) > 48) apart += 1;
        }
        return { mean: sum / (wide * high), cells: apart / (wide * high) };
      },
      [one, other].map((png) => `data:image/png;base64,${png.toString("base64")}`) as [
        string,
        string,
      ],
    );
  } finally {
    await page.close();
  }
}
