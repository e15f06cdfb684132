document.querySelectorAll('figure').forEach(f => {
  const plot = f.querySelector('.plot'), svg = f.querySelector('svg.chart'), tip = f.querySelector('.tip'), cursor = f.querySelector('.cursor');
  if (!plot) return;
  const data = JSON.parse(f.querySelector('script').textContent), [low, high, kind] = svg.dataset.x.split(' ');
  const near = (x, at) => { let a = 0, b = x.length - 1; while (b - a > 1) { const m = (a + b) >> 1; x[m] < at ? a = m : b = m } return Math.abs(x[a] - at) <= Math.abs(x[b] - at) ? a : b };
  const text = v => v === null ? '-' : Math.abs(v) >= 1e6 || v && Math.abs(v) < 1e-3 ? v.toPrecision(5) : String(+v.toPrecision(6));
  const hide = () => { tip.style.display = cursor.style.display = 'none' };
  plot.addEventListener('pointerleave', hide);
  plot.addEventListener('pointermove', e => {
    const box = svg.getBoundingClientRect(), outer = plot.getBoundingClientRect(), part = (e.clientX - box.left) / box.width;
    if (part < 0 || part > 1) return hide();
    const at = kind == 'log' ? low * Math.pow(high / low, part) : +low + part * (high - low), lines = [];
    let x, shown;
    for (const s of data.series) {
      x = s.x || x;
      if (!x.length) continue;
      const i = near(x, at);
      if (shown === undefined) shown = x[i];
      lines.push(s.name.slice(0, 60) + '  ' + text(s.y[i]) + (s.low ? '  (' + text(s.low[i]) + ' to ' + text(s.high[i]) + ')' : ''));
    }
    if (shown === undefined) return hide();
    tip.textContent = data.x + ' ' + text(shown) + '\n' + lines.join('\n');
    tip.style.display = cursor.style.display = 'block';
    cursor.style.left = e.clientX - outer.left + 'px';
    tip.style.top = '12px';
    tip.style.left = Math.max(0, Math.min(e.clientX - outer.left + 12, outer.width - tip.offsetWidth)) + 'px';
  });
});
