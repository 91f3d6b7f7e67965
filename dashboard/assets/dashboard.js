// Keeps a page up to date. The server sends values, see view.go; everything from the
// servers is set as text, never as HTML.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, properties, ...children) => {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (value !== undefined && value !== '') e.setAttribute(name, value);
    }
    e.append(...children);
    return e;
  };
  document.documentElement.classList.add('js');

  // The clock of the server.
  let skew = Date.now() - Number(document.body.dataset.now);
  const now = () => Date.now() - skew;

  const pad = (n) => String(n).padStart(2, '0');
  const duration = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} m ${pad(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} m`;
    return `${Math.floor(s / 86400)} d ${pad(Math.floor(s / 3600) % 24)} h`;
  };
  const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  // When the data was read, and the age from which on it is out of date. Then the times stop
  // at what was read. On a page that gets no updates, they never go on.
  let read = Number(document.body.dataset.read);
  let limit = Number(document.body.dataset.limit);
  let path = document.body.dataset.stream;
  let stale = false;
  const clock = () => (read && (stale || !path) ? read : now());
  const setTime = (e) => {
    if (e.dataset.until) setText(e, duration(Number(e.dataset.until) - clock()));
    else setText(e, duration(clock() - Number(e.dataset.since)));
  };

  let link = ''; // to the dashboard: open, lost or paused
  const status = $('live');
  const say = () => {
    if (!status || !link) return;
    let [text, className] = ['Live', 'on'];
    if (link === 'paused') [text, className] = ['Paused', ''];
    else if (link === 'lost') [text, className] = ['Not connected', 'off'];
    else if (!read) [text, className] = ['No data yet', 'off'];
    else if (stale) [text, className] = ['Out of date', 'bad'];
    setText(status, text);
    status.className = className;
  };
  const tick = () => {
    stale = read > 0 && now() - read > limit;
    document.body.classList.toggle('stale', stale);
    $('age').hidden = !read;
    setText($('age').querySelector('time'), duration(now() - read));
    document.querySelectorAll('time[data-until], time[data-since]').forEach(setTime);
    say();
  };

  // What was drawn last, to leave alone what has not changed.
  const drawn = new WeakMap();
  const same = (e, value) => {
    const text = JSON.stringify(value);
    if (drawn.get(e) === text) return true;
    drawn.set(e, text);
    return false;
  };

  // Puts nodes into an element. The link of the element stays, so that it keeps the focus.
  const put = (e, link, nodes) => {
    const focused = link && document.activeElement === link;
    e.replaceChildren(...nodes);
    if (focused) link.focus({ preventScroll: true });
  };
  const linkIn = (e, c, className) => {
    const a = e.querySelector(':scope > a') || make('a');
    a.className = className;
    a.setAttribute('href', c.href);
    a.textContent = c.text || '';
    if (c.full) a.title = c.full; else a.removeAttribute('title');
    return a;
  };

  const fillCell = (td, c) => {
    if (same(td, c)) return;
    td.className = c.class || '';
    const nodes = [];
    let link = null;
    if (c.of) nodes.push(make('meter', { min: 0, max: c.of, low: 0.8 * c.of, high: Math.max(0.8 * c.of, c.of - 0.5), optimum: 0, value: String(c.part || 0) }));
    if (c.href) {
      nodes.push(link = linkIn(td, c, 'text'));
    } else if (c.until || c.since) {
      const e = make('time', { class: 'text', 'data-until': c.until, 'data-since': c.since });
      setTime(e);
      nodes.push(e);
    } else if (c.text) {
      nodes.push(make('span', { class: 'text', title: c.full }, c.text));
    }
    if (c.note) nodes.push(' ', make('small', { class: 'text' }, c.note));
    put(td, link, nodes);
  };

  const fillFact = (c) => {
    const e = $(`fact-${c.id}`);
    if (!e || same(e, c)) return;
    e.className = `fact ${c.class || ''}`;
    const nodes = [];
    let link = null;
    if (c.href) nodes.push(link = linkIn(e, c, ''));
    else if (c.text) nodes.push(make('b', null, c.text));
    if (c.note) nodes.push(' ', make('small', null, c.note));
    put(e, link, nodes);
  };

  const fillColumns = (table, columns) => {
    const focused = [...table.tHead.rows[0].cells].indexOf(document.activeElement.closest('th'));
    table.tHead.rows[0].replaceChildren(...columns.map((c) => make('th', { scope: 'col', class: c.class, 'aria-sort': c.sort },
      c.href ? make('a', { class: 'sort', href: c.href }, c.text) : c.text)));
    if (focused >= 0) table.tHead.rows[0].cells[focused].querySelector('a')?.focus({ preventScroll: true });
  };

  let first = true; // the first message repeats what the page shows
  const fillTable = (id, u) => {
    const table = $(id);
    if (!table || !table.tHead) return;
    if (u.columns && !same(table.tHead, u.columns)) fillColumns(table, u.columns);
    const labels = [...table.tHead.rows[0].cells].map((th) => th.textContent);
    const body = table.tBodies[0];
    const rows = new Map([...body.rows].map((tr) => [tr.dataset.id, tr]));
    const active = document.activeElement;
    const wanted = new Set(u.order);
    for (const [key, tr] of rows) if (!wanted.has(key)) tr.remove();
    for (const r of u.rows || []) {
      let tr = rows.get(r.id);
      if (!tr) {
        tr = make('tr', { 'data-id': r.id });
        rows.set(r.id, tr);
        if (!first) tr.classList.add('new');
      }
      r.cells.forEach((c, i) => {
        if (!tr.cells[i]) tr.append(make('td', { 'data-label': labels[i] }));
        fillCell(tr.cells[i], c);
      });
    }
    u.order.forEach((key, i) => {
      const tr = rows.get(key);
      if (tr && body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] || null);
    });
    if (active !== document.activeElement && body.contains(active)) active.focus({ preventScroll: true });
    const empty = table.closest('section').querySelector('.empty');
    setText(empty, u.empty || '');
    empty.hidden = u.order.length > 0;
    if (u.caption) setText(table.caption, u.caption);
  };

  const svg = 'http://www.w3.org/2000/svg';
  const attributes = {
    rect: (s) => ({ x: s.x || 0, y: s.y || 0, width: s.w || 0, height: s.h || 0 }),
    line: (s) => ({ x1: s.x || 0, y1: s.y || 0, x2: s.w || 0, y2: s.h || 0 }),
    circle: (s) => ({ cx: s.x || 0, cy: s.y || 0, r: s.w || 0 }),
    path: (s) => ({ d: s.path || '' }),
    text: (s) => ({ x: s.x || 0, y: s.y || 0, 'text-anchor': s.anchor || 'start' }),
  };
  const draw = (p) => {
    const figure = $(p.id);
    if (!figure || same(figure, p)) return;
    figure.querySelector('figcaption').replaceChildren(p.title, ' ', make('small', null, p.about || ''));
    const image = figure.querySelector('svg');
    image.setAttribute('viewBox', `0 0 ${p.width} ${p.height}`);
    image.setAttribute('aria-label', `${p.title}. ${p.about || ''}`);
    image.replaceChildren(...p.shapes.filter((s) => attributes[s.tag]).map((s) => {
      const e = document.createElementNS(svg, s.tag);
      e.setAttribute('class', s.class || '');
      for (const [name, value] of Object.entries(attributes[s.tag](s))) e.setAttribute(name, value);
      if (s.tag === 'text') e.textContent = s.text || '';
      if (s.hint) {
        const title = document.createElementNS(svg, 'title');
        title.textContent = s.hint;
        e.append(title);
      }
      return e;
    }));
  };

  const apply = (m) => {
    skew = Date.now() - m.now;
    [read, limit] = [m.read, m.limit];
    stale = false; // else the times of new rows would stand still until the tick
    (m.facts || []).forEach(fillFact);
    Object.entries(m.tables || {}).forEach(([id, u]) => fillTable(id, u));
    (m.pictures || []).forEach(draw);
    tick();
    first = false;
  };

  tick();
  setInterval(tick, 1000);

  if (!path) return;
  const pause = $('pause');
  let source = null;
  let paused = false;
  let retry = 0;
  const setLink = (now) => { link = now; say(); };
  const disconnect = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    disconnect();
    if (paused || document.hidden) return;
    source = new EventSource(path);
    source.onopen = () => setLink('open');
    source.onmessage = (e) => apply(JSON.parse(e.data));
    source.onerror = () => {
      setLink('lost');
      if (source && source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 5000);
    };
  };
  pause.hidden = false;
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    setText(pause, paused ? 'Continue' : 'Pause');
    if (paused) {
      disconnect();
      setLink('paused');
    } else {
      connect();
    }
  });
  // A page in the background needs no updates, and the server no scans for it.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) disconnect(); else connect();
  });

  // The list follows the search field while the user types.
  const form = $('filter');
  if (form) {
    let typing = 0;
    const search = () => {
      const given = new URLSearchParams(new FormData(form));
      for (const [name, value] of [...given]) if (value === '') given.delete(name);
      const text = given.toString();
      const link = text ? `./?${text}` : './';
      if (paused) {
        location.assign(link);
        return;
      }
      history.replaceState(null, '', link);
      path = `events?page=&${text}`;
      first = true;
      connect();
    };
    form.addEventListener('input', () => {
      clearTimeout(typing);
      typing = setTimeout(search, 150);
    });
    form.addEventListener('submit', (e) => {
      e.preventDefault();
      clearTimeout(typing);
      search();
    });
  }
  connect();
})();
