/* Texts for the clipboard. */

async function copyText(text, button) {
  const before = button.textContent;
  button.textContent = (await toClipboard(text)) ? 'Copied' : 'Not copied';
  button.dataset.copied = text;
  setTimeout(() => (button.textContent = before), 1200);
}

/* Browsers offer the clipboard to pages at 127.0.0.1, but not to those of other hosts without TLS. */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el('textarea', { class: 'unseen' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function copyButton(label, textOf) {
  const button = el('button', { type: 'button', class: 'plain' }, label);
  button.addEventListener('click', () => copyText(textOf(), button));
  return button;
}
