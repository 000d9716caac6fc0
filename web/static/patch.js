// patch makes the children and attributes of `from` equal to those of `to`,
// touching only what differs. Children with an id are matched by id, so that a
// row keeps its element when rows come and go; others are matched in order.
export function patch(from, to) {
  // What a script writes into an element of its own is not the server's.
  if (from.dataset?.kept !== undefined) return;
  patchAttributes(from, to);
  patchChildren(from, to);
}

// The reader decides what is open; the server doesn't know.
const kept = new Map([['DETAILS', new Set(['open'])]]);

function patchAttributes(from, to) {
  const keep = kept.get(from.tagName);
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !keep?.has(name)) from.removeAttribute(name);
  }
}

function patchChildren(from, to) {
  const byId = new Map();
  for (const child of from.children) if (child.id) byId.set(child.id, child);

  let here = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const match = find(here, wanted, byId);
    if (!match) {
      from.insertBefore(document.importNode(wanted, true), here);
      continue;
    }
    if (match === here) here = here.nextSibling;
    else from.insertBefore(match, here);
    if (match.nodeType === Node.ELEMENT_NODE) patch(match, wanted);
    else if (match.nodeValue !== wanted.nodeValue) match.nodeValue = wanted.nodeValue;
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

function find(here, wanted, byId) {
  if (wanted.id) {
    const match = byId.get(wanted.id);
    return match?.nodeName === wanted.nodeName ? match : null;
  }
  return here && here.nodeName === wanted.nodeName && !here.id ? here : null;
}
