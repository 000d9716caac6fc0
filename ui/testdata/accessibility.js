// Looks at the page as a checker of accessibility would and returns what it
// finds wrong, as sentences. The rules are those of WCAG 2.2 AA that a program
// can decide on pages like these.
(() => {
  const problems = [];
  const say = (text, element) => problems.push(element ? `${text}: ${name(element)}` : text);
  const name = (e) => `<${e.tagName.toLowerCase()}${e.id ? ` id=${e.id}` : ''}${e.className && typeof e.className === 'string' ? ` class="${e.className}"` : ''}> ${(e.textContent ?? '').trim().replace(/\s+/g, ' ').slice(0, 40)}`;
  const all = (selector, under = document) => [...under.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const byIds = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? '').join(' ').trim();

  function accessibleName(e) {
    if (e.getAttribute('aria-labelledby')) return byIds(e.getAttribute('aria-labelledby'));
    if (e.getAttribute('aria-label')) return e.getAttribute('aria-label').trim();
    if (e.labels?.length) return [...e.labels].map((l) => l.textContent).join(' ').trim();
    if (e.tagName === 'TABLE' && e.caption) return e.caption.textContent.trim();
    if (e.matches('a, button, summary, th')) return e.textContent.trim();
    return (e.getAttribute('title') ?? '').trim();
  }

  // Document
  if (!document.documentElement.lang) say('the document has no language');
  if (!document.title.trim()) say('the document has no title');
  if (/user-scalable\s*=\s*no|maximum-scale/.test(document.querySelector('meta[name=viewport]')?.content ?? '')) say('zooming is forbidden');
  const ids = new Map();
  for (const e of all('[id]')) ids.set(e.id, (ids.get(e.id) ?? 0) + 1);
  for (const [id, count] of ids) if (count > 1) say(`the id ${id} is there ${count} times`);
  for (const e of all('[aria-labelledby], [aria-describedby]')) {
    for (const attribute of ['aria-labelledby', 'aria-describedby']) {
      for (const id of (e.getAttribute(attribute) ?? '').split(/\s+/)) if (id && !document.getElementById(id)) say(`${attribute} names ${id}, which is not there`, e);
    }
  }
  for (const e of all('label[for]')) if (!document.getElementById(e.htmlFor)) say('the label is of nothing', e);

  // Landmarks
  for (const [selector, label] of [['main', 'main'], ['body > header', 'banner'], ['body > footer', 'contentinfo']]) {
    const found = all(selector).length;
    if (found !== 1) say(`there are ${found} landmarks ${label}`);
  }
  const seen = new Set();
  for (const e of all('nav, [role=region], [role=search], [role=group], section')) {
    const label = accessibleName(e);
    if (!label) say('the landmark has no name', e);
    const key = `${e.getAttribute('role') ?? e.tagName} ${label}`;
    if (seen.has(key)) say(`two landmarks are called ${key}`, e);
    seen.add(key);
  }
  const skip = document.querySelector('body > a[href^="#"]');
  if (!skip || !document.querySelector(skip.getAttribute('href'))) say('there is no link that skips to the content');

  // Headings
  const headings = all('h1, h2, h3, h4, h5, h6').filter((h) => !h.closest('dialog'));
  if (headings.filter((h) => h.tagName === 'H1').length !== 1) say('there is not exactly one h1');
  headings.reduce((before, h) => {
    const level = Number(h.tagName[1]);
    if (level > before + 1) say(`a heading of level ${level} follows one of level ${before}`, h);
    if (!h.textContent.trim()) say('the heading is empty', h);
    return level;
  }, 0);

  // Controls and pictures
  for (const e of all('a[href], button, input:not([type=hidden]), textarea, select, summary')) {
    if (!accessibleName(e)) say('the control has no name', e);
    if (Number(e.getAttribute('tabindex')) > 0) say('the control jumps the tab order', e);
  }
  for (const e of all('img:not([alt]), svg:not([aria-hidden=true]):not([aria-label])')) say('the picture has no alternative', e);
  for (const e of all('button')) if (shown(e) && e.getBoundingClientRect().height < 24) say('the button is less than 24 pixels high', e);
  for (const e of all('ul > :not(li), ol > :not(li), dl > :not(div):not(dt):not(dd)')) say('the list holds what is no item', e);

  // Tables
  for (const table of all('table')) {
    if (!accessibleName(table)) say('the table has no name', table);
    if (all('thead th[scope=col]', table).length === 0) say('the table has no column headers', table);
    const columns = all('thead th', table).length;
    for (const th of all('th', table)) {
      if (!th.scope) say('the header cell has no scope', th);
      if (!accessibleName(th)) say('the header cell is empty', th);
    }
    for (const row of all('tbody tr', table)) {
      if (!row.querySelector('th[scope=row]')) say('the row has no header', row);
      if (row.cells.length !== columns) say(`the row has ${row.cells.length} cells under ${columns} headers`, row);
    }
  }

  // What scrolls can be reached by the keyboard; the page itself never scrolls sideways
  for (const e of all('body *')) {
    const { overflowX, overflowY } = getComputedStyle(e);
    const scrolls = (/auto|scroll/.test(overflowX) && e.scrollWidth > e.clientWidth + 1) || (/auto|scroll/.test(overflowY) && e.scrollHeight > e.clientHeight + 1);
    if (scrolls && shown(e) && e.tabIndex < 0 && !e.matches('textarea')) say('what scrolls cannot be reached by keyboard', e);
  }
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = all('main *, header *, footer *').filter((e) => shown(e) && !e.closest('.scroll, .unseen, .skip, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1);
    say(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}; ${wide.slice(0, 3).map(name).join(' | ')}`);
  }

  // Contrast
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  function rgba(color) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  // Every ground that may lie behind an element: a pattern gives several.
  function grounds(e) {
    let layers = [];
    for (let at = e; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const painted = [];
      if (style.backgroundImage !== 'none') painted.push(...(style.backgroundImage.match(/(rgba?|color|oklch|hsla?)\([^)]*\)/g) ?? []).map(rgba));
      const plain = rgba(style.backgroundColor);
      if (painted.length === 0 && plain[3] > 0) painted.push(plain);
      if (painted.length === 0) continue;
      layers.push(painted);
      if (painted.every((c) => c[3] === 1)) break;
    }
    let result = [rgba('Canvas')];
    for (const layer of layers.reverse()) result = layer.flatMap((c) => result.map((under) => over(c, under)));
    return result;
  }
  const told = new Set();
  function check(e, color, needed, what) {
    const opacity = (function up(at) { return at ? Number(getComputedStyle(at).opacity) * up(at.parentElement) : 1; })(e);
    for (const ground of grounds(e)) {
      const top = rgba(color);
      const ratio = contrast(over([...top.slice(0, 3), top[3] * opacity], ground), ground);
      const key = `${what} ${e.tagName} ${e.className}`;
      if (ratio < needed && !told.has(key)) {
        told.add(key);
        say(`${what} has a contrast of ${ratio.toFixed(2)}, not ${needed}`, e);
      }
    }
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || !shown(e) || e.closest('.unseen, .skip, title, noscript, script')) continue;
    const style = getComputedStyle(e);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    check(e, e.closest('svg') ? style.fill : style.color, large ? 3 : 4.5, 'text');
  }
  for (const e of all('input:not([type=hidden]):not([type=checkbox]), textarea, button')) {
    if (!shown(e) || e.matches('.quiet')) continue;
    const style = getComputedStyle(e);
    const edge = rgba(style.borderTopColor);
    const outside = grounds(e.parentElement);
    const fill = rgba(style.backgroundColor);
    for (const ground of outside) {
      if (Math.max(contrast(over(edge, ground), ground), contrast(over(fill, ground), ground)) < 3) say('the border of the control has a contrast below 3', e);
    }
  }

  // Focus
  const before = document.activeElement;
  for (const e of all('a[href], button, input:not([type=hidden]), textarea, summary, [tabindex="0"]')) {
    if (!shown(e)) continue;
    e.focus({ focusVisible: true, preventScroll: true });
    if (document.activeElement !== e) continue;
    const style = getComputedStyle(e);
    if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) say('the focus cannot be seen', e);
    else check(e.parentElement, style.outlineColor, 3, 'the focus ring');
  }
  before?.focus?.({ preventScroll: true });
  scrollTo(0, 0);
  return problems;
})()
