// Exports a picture or a table as PNG, SVG or CSV, to a file or the clipboard.

import type { Inks } from "../base/colours";
import { CanvasPen } from "./canvas_pen";
import type { Pen, Size } from "./pen";
import { SvgPen } from "./svg_pen";

export type Draw = (pen: Pen, size: Size, inks: Inks) => void;

export interface Drawing {
  /** The file name without its extension. */
  readonly name: string;
  readonly title: string;
  readonly size: Size;
  readonly inks: Inks;
  readonly draw: Draw;
}

/** The scale of PNG pictures. */
const PNG_SCALE = 2;

export function svgOf(drawing: Drawing): string {
  const pen = new SvgPen(ruler());
  const { width, height } = drawing.size;
  pen.rect(0, 0, width, height, drawing.inks.panel);
  drawing.draw(pen, drawing.size, drawing.inks);
  return pen.document(width, height, drawing.title);
}

export async function pngOf(drawing: Drawing): Promise<Blob> {
  const { width, height } = drawing.size;
  const canvas = new OffscreenCanvas(width * PNG_SCALE, height * PNG_SCALE);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw pictures");
  context.scale(PNG_SCALE, PNG_SCALE);
  const pen = new CanvasPen(context);
  pen.rect(0, 0, width, height, drawing.inks.panel);
  drawing.draw(pen, drawing.size, drawing.inks);
  return canvas.convertToBlob({ type: "image/png" });
}

/** Copies a picture to the clipboard; false if the browser has none. */
export async function copyPng(drawing: Drawing): Promise<boolean> {
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": pngOf(drawing) })]);
    return true;
  } catch {
    return false;
  }
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Rows as CSV (RFC 4180). A cell that a spreadsheet would treat as a formula gets an apostrophe.
 */
export function csvOf(rows: readonly (readonly (string | number)[])[]): string {
  return `${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;
}

function csvCell(cell: string | number): string {
  if (typeof cell === "number") return String(cell);
  const safe = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function ruler(): (text: string, size?: number, isBold?: boolean) => number {
  const context = document.createElement("canvas").getContext("2d");
  const pen = context && new CanvasPen(context);
  return (text, size, isBold) =>
    pen?.measure(text, size, isBold) ?? text.length * (size ?? 12) * 0.55;
}
