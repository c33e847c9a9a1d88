// The curve of the tries: memory against cost. Pointer and keys choose a point.

import { useState } from "preact/hooks";
import type { Plan, PlanTry } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import type { Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { costSentence, formatMultiple, tryName } from "../../render/plan_words";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useKeys } from "../../render/use_keys";
import { drawCurve, pointAt } from "./curve_draw";
import { hasTimes, isSameTry, pointsOf } from "./order";

export interface CurveProps {
  readonly found: Plan;
  readonly pointed: PlanTry | null;
  readonly onPoint: (tried: PlanTry | null) => void;
}

export function Curve({ found, pointed, onPoint }: CurveProps) {
  const [size, setSize] = useState<Size>({ width: 600, height: 280 });
  const points = pointsOf(found);
  const missing = found.tries.length - points.length;
  const axis = hasTimes(found) ? "time of a step" : "operations of a step";
  const move = (by: 1 | -1) => {
    const here = points.findIndex((one) => isSameTry(one, pointed));
    const next = here < 0 ? (by > 0 ? 0 : points.length - 1) : here + by;
    onPoint(points[Math.max(0, Math.min(points.length - 1, next))] ?? null);
  };
  useKeys("Plan", [
    { keys: ["n", "ArrowRight"], hint: "The next point of the curve", run: () => move(1) },
    { keys: ["p", "ArrowLeft"], hint: "The previous point of the curve", run: () => move(-1) },
    { keys: ["Escape"], hint: "No point", run: () => onPoint(null) },
  ]);
  return (
    <section class="panel plan-part" aria-labelledby="plan-curve">
      <h3 id="plan-curve">Memory against the {axis}; 1 × is unchanged</h3>
      <div class="plan-picture">
        <Picture
          name="plan"
          label={labelOf(found, points.length, axis)}
          draw={(pen, now, colours) => {
            if (now.width !== size.width || now.height !== size.height) setSize(now);
            drawCurve(pen, now, colours, { found, axis, pointed });
          }}
          on={{
            onPointerMove: (event) => {
              const near = pointAt(found, size, event.offsetX, event.offsetY);
              onPoint(near);
              if (near) showTip(event.clientX, event.clientY, <Tip tried={near} found={found} />);
              else hideTip();
            },
            onPointerLeave: () => {
              onPoint(null);
              hideTip();
            },
          }}
        />
      </div>
      <p class="plan-pointed" aria-live="polite">
        {pointed ? (
          pointSentence(pointed)
        ) : (
          <span class="quiet">
            <b>●</b> fits <b>○</b> does not fit <b>■</b> results in another precision
            {missing > 0 && ` · ${missing} of unknown cost`}
          </span>
        )}
      </p>
    </section>
  );
}

function pointSentence(tried: PlanTry): string {
  const fits = tried.fits ? "fits" : "does not fit";
  return `${tryName(tried)}: ${formatBytes(tried.needed)}, ${fits}; ${costSentence(tried)}`;
}

function labelOf(found: Plan, count: number, axis: string): string {
  const fitting = found.tries.filter((tried) => tried.fits).length;
  const plan = found.plan ? ` The plan is ${pointSentence(found.plan)}.` : "";
  return `Memory against the ${axis} of ${counted(count, "try", "tries")}; ${fitting} fit into ${formatBytes(found.capacity)}.${plan} Arrows go from point to point.`;
}

function Tip({ tried, found }: { tried: PlanTry; found: Plan }) {
  const left = found.capacity - tried.needed;
  return (
    <>
      <p class="title">{tryName(tried)}</p>
      <TipRows
        rows={[
          ["needs", formatBytes(tried.needed)],
          [left >= 0 ? "left" : "beyond the GPU", formatBytes(Math.abs(left))],
          ["allocated", formatBytes(tried.peak_allocated)],
          ["reserved", formatBytes(tried.peak_reserved)],
          ["time of a step", formatMultiple(tried.slow_down)],
          ["operations", formatMultiple(tried.compute)],
          ["results", tried.numerics],
        ]}
      />
    </>
  );
}
