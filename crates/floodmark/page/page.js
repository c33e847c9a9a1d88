/** Lists the traces: from the server, or from the answers inside a saved page. */

async function stored() {
  const element = document.getElementById("floodmark-answers");
  if (element === null) return null;
  const packed = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).json();
}

const answers = await stored();
const traces = answers === null ? await (await fetch("api/traces")).json() : answers["api/traces"];
const list = document.createElement("ul");
for (const trace of traces.traces) {
  const item = document.createElement("li");
  item.textContent = `${trace.name}: ${trace.summary.events} events`;
  list.append(item);
}
document.getElementById("app").append(list);
