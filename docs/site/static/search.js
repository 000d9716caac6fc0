// Search over search.json, which the site brings: sections that have all words, best first. Choosing a version leads there.
(() => {
  const root = new URL('.', document.currentScript.src);
  const most = 12; // entries shown
  let sections;

  const load = () => (sections ??= fetch(new URL('search.json', root)).then((r) => r.json()).then((list) =>
    list.map((s) => ({ ...s, low: s.text.toLowerCase(), head: `${s.page} ${s.section}`.toLowerCase() }))));

  // How well a section answers; 0 where a word is missing.
  const score = (section, words) => words.reduce((sum, word) => {
    const times = section.low.split(word).length - 1;
    const titled = section.head.includes(word);
    return sum && (times || titled) ? sum + Math.min(times, 5) + (titled ? 12 : 0) : 0;
  }, 1);

  // The text around the first word.
  const excerpt = (section, word) => {
    const at = Math.max(section.low.indexOf(word) - 40, 0);
    return (at ? '…' : '') + section.text.slice(at, at + 180).replace(/\s+/g, ' ');
  };

  const entry = (section, word) => {
    const item = document.createElement('li');
    const link = item.appendChild(document.createElement('a'));
    link.href = new URL(section.url, root);
    link.append([section.page, section.section].filter(Boolean).join(' › ').replace(/`/g, ''));
    link.appendChild(document.createElement('small')).textContent = excerpt(section, word);
    return item;
  };

  document.addEventListener('DOMContentLoaded', () => {
    const query = document.getElementById('query');
    const found = document.getElementById('found');
    const hide = () => { found.hidden = true; };

    const show = async () => {
      const asked = query.value;
      const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) return hide();
      const list = await load();
      if (query.value !== asked) return; // a later letter is being answered
      const hits = list.map((section) => [score(section, words), section]).filter(([n]) => n)
        .sort(([a], [b]) => b - a).slice(0, most);
      found.replaceChildren(...hits.map(([, section]) => entry(section, words[0])));
      if (!hits.length) found.appendChild(document.createElement('li')).innerHTML = '<p>Nothing has all these words.</p>';
      found.hidden = false;
    };

    query.addEventListener('input', show);
    query.addEventListener('focus', show);
    document.addEventListener('click', (e) => { if (!e.target.closest('search')) hide(); });
    document.addEventListener('keydown', (e) => {
      const links = [...found.querySelectorAll('a')];
      const at = links.indexOf(document.activeElement);
      if (e.key === '/' && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) query.focus();
      else if (e.key === 'Escape') hide();
      else if (e.key === 'Enter' && document.activeElement === query && links.length) links[0].click();
      else if (e.key === 'ArrowDown' && !found.hidden) links[Math.min(at + 1, links.length - 1)]?.focus();
      else if (e.key === 'ArrowUp' && at >= 0) (links[at - 1] ?? query).focus();
      else return;
      e.preventDefault();
    });
    document.getElementById('version')?.addEventListener('change', (e) => { location.href = e.target.value; });
    query.value = new URLSearchParams(location.search).get('q') ?? ''; // ?q=words can be linked to
    if (query.value) show();
    if (innerWidth < 900) document.querySelector('nav details').open = false;
  });
})();
