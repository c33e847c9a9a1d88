// A pen that draws on a canvas.

import { fontOf, type LineStyle, type Pen, type TextStyle } from "./pen";

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Widths of texts: measuring is slow, and pictures show the same few texts again and again. */
const widths = new Map<string, number>();

export class CanvasPen implements Pen {
  readonly context: Context;

  constructor(context: Context) {
    this.context = context;
  }

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  outline(x: number, y: number, width: number, height: number, style: LineStyle): void {
    this.stroked(style);
    this.context.strokeRect(x, y, width, height);
  }

  line(points: readonly number[], style: LineStyle): void {
    this.stroked(style);
    this.trace(points);
    this.context.stroke();
  }

  area(points: readonly number[], fill: string): void {
    this.context.fillStyle = fill;
    this.trace(points);
    this.context.closePath();
    this.context.fill();
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    this.context.font = fontOf(style.size, style.isBold);
    this.context.fillStyle = style.fill;
    this.context.textAlign = style.align === "middle" ? "center" : (style.align ?? "start");
    this.context.textBaseline = style.baseline ?? "alphabetic";
    this.context.fillText(text, x, y);
  }

  measure(text: string, size = 12, isBold = false): number {
    const key = `${size}${isBold ? "b" : ""} ${text}`;
    const known = widths.get(key);
    if (known !== undefined) return known;
    this.context.font = fontOf(size, isBold);
    const width = this.context.measureText(text).width;
    if (widths.size > 20_000) widths.clear();
    widths.set(key, width);
    return width;
  }

  clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  private stroked(style: LineStyle): void {
    this.context.strokeStyle = style.stroke;
    this.context.lineWidth = style.width ?? 1;
    this.context.setLineDash(style.dash ? [...style.dash] : []);
  }

  private trace(points: readonly number[]): void {
    this.context.beginPath();
    this.context.moveTo(points[0] ?? 0, points[1] ?? 0);
    for (let at = 2; at + 1 < points.length; at += 2) {
      this.context.lineTo(points[at] ?? 0, points[at + 1] ?? 0);
    }
  }
}

/** A pen for a canvas of this size in CSS pixels, scaled to the screen. Clears the canvas. */
export function penFor(canvas: HTMLCanvasElement, width: number, height: number): CanvasPen | null {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(width * ratio));
  const high = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return new CanvasPen(context);
}
