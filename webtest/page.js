// What the tests ask the page, in the words of a user. Each call of a test runs with these functions in scope.

// all returns the elements of a selector that a user can see.
function all(selector, within = document) {
  return [...within.querySelectorAll(selector)].filter((e) => e.checkVisibility({ visibilityProperty: true }));
}

// nameOf returns the accessible name of a control, as far as our page needs it.
function nameOf(e) {
  const label = e.getAttribute('aria-label') ?? (e.id && document.querySelector(`label[for="${CSS.escape(e.id)}"]`)?.textContent);
  return (label || e.closest('label')?.textContent || e.textContent || e.value || e.title || '').replace(/\s+/g, ' ').trim();
}

// control returns the first visible control with a name, or with one that starts with it.
function control(selector, name) {
  const found = all(selector);
  return found.find((e) => nameOf(e) === name) ?? found.find((e) => nameOf(e).startsWith(name)) ?? null;
}

// row returns the row of a bucket.
function row(entity, resource) {
  return all(`[data-entity="${CSS.escape(entity)}"][data-resource="${CSS.escape(resource)}"]`)[0] ?? null;
}

// limit returns what the row of a bucket shows of a limit.
function limit(entity, resource, name) {
  const line = row(entity, resource)?.querySelector(`[data-limit="${CSS.escape(name)}"]`);
  if (!line) return null;
  const meter = line.querySelector('[role=meter]');
  const bar = meter.firstElementChild;
  return {
    level: line.dataset.level,
    amount: line.querySelector('.amount').textContent,
    percent: line.querySelector('.percent').textContent,
    share: Math.round(100 * bar.getBoundingClientRect().width / meter.getBoundingClientRect().width),
    color: getComputedStyle(bar).backgroundColor,
    image: getComputedStyle(bar).backgroundImage,
    sign: line.querySelector('.sign').textContent,
    value: Number(meter.getAttribute('aria-valuenow')),
    spoken: meter.getAttribute('aria-valuetext'),
  };
}

// pill returns the state of the connection, as text.
function pill() {
  return document.querySelector('#pill').textContent.trim();
}

// heading returns the title of the view.
function heading() {
  return all('h1').map((e) => e.textContent.trim()).join(' | ');
}

// overflow returns how far the page is wider than its window, and the widest elements.
function overflow() {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide <= 0) return '';
  const guilty = all('body *').filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5);
  return `${wide} px: ${guilty.map((e) => `${e.tagName}.${e.className}`).join(', ')}`;
}
