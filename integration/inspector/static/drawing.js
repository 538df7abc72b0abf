// Drawings of rules and automata as SVG, out of places that the server has found.

import { h, htm } from "./vendor.js";

const html = htm.bind(h);

export function Drawing({ drawing, empty }) {
  if (!drawing || !drawing.boxes.length) return html`<p class="dim">${empty}</p>`;
  const { boxes, arrows, width, height, title } = drawing;
  const live = boxes.filter((box) => box.live).map((box) => box.label);
  return html`<figure class="drawing">
    <figcaption>${title}${drawing.cut ? ": a part of it, as there is more than can be drawn" : ""}${drawing.followed ? "" : ": the text was too long to follow in time"}
      ${live.length ? html` <span class="dim">live: ${live.slice(0, 8).join(", ")}</span>` : null}</figcaption>
    <div class="scroll" tabindex="0" role="group" aria-label="Drawing, which scrolls">
      <svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${`${title}: ${boxes.length} boxes, ${arrows.length} arrows`}>
        <defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="arrowhead" d="M0 0L8 4L0 8z" /></marker>
        <marker id="head-live" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="11" markerHeight="11" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="arrowhead live" d="M0 0L8 4L0 8z" /></marker></defs>
        ${arrows.map((arrow) => html`<path class=${`arrow${arrow.live ? " live" : ""}`} d=${arrow.path} marker-end=${arrow.live ? "url(#head-live)" : "url(#head)"} />`)}
        ${arrows.filter((arrow) => arrow.label).map((arrow) => html`<text class="arrow-label" x=${arrow.label_x} y=${arrow.label_y}>${arrow.label}</text>`)}
        ${boxes.map((box) => html`<g class=${`box${box.live ? " live" : ""}${box.start ? " start" : ""}`}>
          <rect x=${box.x - box.width / 2} y=${box.y - box.height / 2} width=${box.width} height=${box.height} rx=${box.kind === "rule" ? 8 : box.height / 2} />
          ${box.kind === "final" ? html`<rect x=${box.x - box.width / 2 + 4} y=${box.y - box.height / 2 + 4} width=${box.width - 8} height=${box.height - 8} rx=${box.height / 2 - 4} />` : null}
          <text x=${box.x} y=${box.y + 4.5}>${box.label}</text></g>`)}
      </svg></div></figure>`;
}
