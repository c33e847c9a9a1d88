// A pen that writes SVG. Every text from a recording is escaped here and nowhere else.

import { FONT, type LineStyle, type Pen, type TextStyle } from "./pen";

export class SvgPen implements Pen {
  private readonly parts: string[] = [];
  private clips = 0;
  private readonly ruler: (text: string, size?: number, isBold?: boolean) => number;

  /** `ruler` measures texts, which SVG cannot. */
  constructor(ruler: (text: string, size?: number, isBold?: boolean) => number) {
    this.ruler = ruler;
  }

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.parts.push(
      `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${escaped(fill)}"/>`,
    );
  }

  outline(x: number, y: number, width: number, height: number, style: LineStyle): void {
    const box = `x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}"`;
    this.parts.push(`<rect ${box} fill="none" ${stroke(style)}/>`);
  }

  line(points: readonly number[], style: LineStyle): void {
    this.parts.push(`<polyline points="${listed(points)}" fill="none" ${stroke(style)}/>`);
  }

  area(points: readonly number[], fill: string): void {
    this.parts.push(`<polygon points="${listed(points)}" fill="${escaped(fill)}"/>`);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const size = style.size ?? 12;
    // Not every program supports `dominant-baseline`.
    const down =
      style.baseline === "middle" ? size * 0.35 : style.baseline === "top" ? size * 0.8 : 0;
    const weight = style.isBold ? ' font-weight="600"' : "";
    const anchor = style.align && style.align !== "start" ? ` text-anchor="${style.align}"` : "";
    this.parts.push(
      `<text x="${n(x)}" y="${n(y + down)}" font-size="${size}" fill="${escaped(style.fill)}"${weight}${anchor}>${escaped(text)}</text>`,
    );
  }

  measure(text: string, size?: number, isBold?: boolean): number {
    return this.ruler(text, size, isBold);
  }

  clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.clips += 1;
    const id = `clip${this.clips}`;
    const box = `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}"/>`;
    this.parts.push(`<clipPath id="${id}">${box}</clipPath><g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  /** The whole picture. */
  document(width: number, height: number, title: string): string {
    const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}"`;
    return `${head} font-family="${escaped(FONT)}"><title>${escaped(title)}</title>${this.parts.join("\n")}</svg>\n`;
  }
}

function stroke(style: LineStyle): string {
  const dash = style.dash ? ` stroke-dasharray="${style.dash.join(" ")}"` : "";
  return `stroke="${escaped(style.stroke)}" stroke-width="${style.width ?? 1}"${dash}`;
}

function listed(points: readonly number[]): string {
  return points.map(n).join(" ");
}

function n(value: number): string {
  return String(Number(value.toFixed(2)));
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A text with markup escaped and characters removed that XML does not allow. */
export function escaped(text: string): string {
  return Array.from(text, (letter) =>
    isAllowed(letter) ? (ESCAPES[letter] ?? letter) : "\ufffd",
  ).join("");
}

/** Whether XML 1.0 allows a character. */
function isAllowed(letter: string): boolean {
  const code = letter.codePointAt(0) ?? 0;
  if (code < 0x20) return code === 0x9 || code === 0xa || code === 0xd;
  return !(code >= 0xd800 && code <= 0xdfff) && code !== 0xfffe && code !== 0xffff;
}
