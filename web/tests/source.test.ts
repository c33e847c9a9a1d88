// The view of the source: files by bytes, bytes in the gutter, links to a line; from the trace, from disk, or missing.

import { execFileSync } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field, idle, open, show, useBrowser, useVisit } from "./browser";
import { floodmark, python, serve } from "./program";
import { RESNET } from "./recordings";

const used = useBrowser();

const PROGRAM = `import torch

kept = []
for step in range(3):
    kept.append(torch.zeros(1 << 20))  # four MiB
    kept.append(torch.zeros(1 << 18))
`;

describe("a program that was recorded with its source", () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-source-"));
  const script = join(folder, "train.py");
  const record = (name: string, ...options: string[]) => {
    const file = join(folder, name);
    const run = ["-m", "floodmark", "run", "--quiet", "-o", file, ...options, script];
    execFileSync(python(), run, { cwd: folder, stdio: "pipe" });
    return file;
  };
  let stored: string;
  let bare: string;
  beforeAll(() => {
    writeFileSync(script, PROGRAM);
    stored = record("stored.flood", "--source");
    bare = record("bare.flood");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("shows the bytes beside the line that allocated them", async () => {
    const served = await serve(stored);
    const { page, complaints } = await open(used.browser, `${served.url}#view=source`);
    expect(await page.locator(".source-head").innerText()).toContain("the copy in the trace");
    const hot = page.locator(".source-code li", { hasText: "four MiB" });
    expect(await hot.locator(".gutter").innerText()).toMatch(/^12\.00 MiB/);
    expect(await hot.locator(".number").innerText()).toBe("5");
    await page.keyboard.press("n");
    await idle(page);
    expect(await field(page, "line")).toBe("5");
    expect(await page.locator(".source-code li.wanted").innerText()).toContain("four MiB");
    expect(complaints).toEqual([]);
    await page.context().close();
    await served.stop();
  });

  it("a location leads to its line, from a card, a list and a table", async () => {
    const served = await serve(stored);
    const { page } = await open(used.browser, `${served.url}#view=overview`);
    await page
      .getByRole("link", { name: /train\.py:5/ })
      .first()
      .click();
    await idle(page);
    expect([await field(page, "view"), await field(page, "line")]).toEqual(["source", "5"]);
    await page.goBack();
    await idle(page);
    await show(page, served.url, "#view=peak");
    await page
      .getByRole("link", { name: /^Source of .*train\.py:6/ })
      .first()
      .click();
    await idle(page);
    expect([await field(page, "view"), await field(page, "line")]).toEqual(["source", "6"]);
    await page.context().close();
    await served.stop();
  });

  it("says where the source is missing, and reads it from disk where it is not", async () => {
    const served = await serve(bare);
    const { page } = await open(used.browser, `${served.url}#view=source`);
    await page.locator(".source-code li", { hasText: "four MiB" }).waitFor();
    expect(await page.locator(".source-head").innerText()).not.toContain("the copy that");
    renameSync(script, `${script}.moved`);
    try {
      await show(page, served.url, "#view=source&at=end");
      expect(await page.locator(".source-note").innerText()).toContain("not on this machine");
      expect(await page.locator(".source-code li").first().innerText()).toContain("(<module>)");
      // The trace that has a copy shows it all the same, also in the terminal.
      expect(await floodmark("annotate", stored, "train.py")).toContain("# four MiB");
    } finally {
      renameSync(`${script}.moved`, script);
    }
    await page.context().close();
    await served.stop();
  });

  it("a saved page has the source that the trace has, and no other", async () => {
    for (const [file, has] of [
      [stored, true],
      [bare, false],
    ] as const) {
      const saved = `${file}.html`;
      await floodmark("export", file, "--to", "html", "-o", saved);
      const { page } = await open(used.browser, `${pathToFileURL(saved).href}#view=source`);
      expect(await page.locator(".source-code").innerText()).toMatch(has ? /four MiB/ : /module/);
      if (!has) expect(await page.locator(".source-note").innerText()).toContain("record it with");
      await page.context().close();
    }
  });
});

describe("a snapshot of another machine", () => {
  const visit = useVisit(used, RESNET);

  it("lists its files by bytes, and reads none that it does not name", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=source");
    const rows = page.locator(".source-files tbody tr.pickable");
    expect(await rows.count()).toBeGreaterThan(0);
    await rows.last().click();
    await idle(page);
    expect(await field(page, "file")).toMatch(/\.py$/);
    const refused = await page.request.get(`${served.url}api/source?at=peak&file=/etc/hostname`);
    expect(refused.status()).toBe(422);
    expect(await refused.text()).toContain("no allocation comes from this file");
  });
});
