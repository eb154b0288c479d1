/* What a draft means: the messages that each queue gains and loses, with a witness that can be asked about. */

const askMeaning = asker('meaning');

async function showMeaning(place) {
  place.replaceChildren(el('p', { class: 'soft' }, 'comparing …'));
  delete place.dataset.ready;
  try {
    place.replaceChildren(...meaningOf(await askMeaning(subject())));
  } catch (error) {
    place.replaceChildren(faultOf(error.message));
  }
  place.dataset.ready = 'yes';
}

const exchangeText = (name) => (name === '' ? 'the default exchange' : 'exchange ' + nameText(name, 60));

function meaningOf({ meaning, plan_lines: plan, settings_lines: settings }) {
  const items = [
    ...meaning.access.map((each) => [each.opened ? '+' : '-', exchangeText(each.exchange), each.opened ? ' can be published to now' : ' can no longer be published to', ': it is ', each.reason]),
    ...meaning.effects.map((effect) => effectItem(effect)),
    ...meaning.unroutable.filter((each) => each.exchange).map((each) => [each.now ? '!' : '+', 'published to ', exchangeText(each.exchange), ', ', messageButton(each.witness), each.now ? ' goes nowhere now' : ' no longer goes nowhere']),
    ...meaning.choices.map((each) => ['~', exchangeText(each.at), each.certain ? ' chooses otherwise' : ' may choose otherwise', ', by ' + each.by + ', such as ', messageButton(each.witness)]),
    ...meaning.partitions.map((each) => ['~', 'queue ' + nameText(each.queue, 60), ': ', each.before || 'no partitions', ', then ', each.after || 'no partitions', each.witness ? [', such as ', messageButton(each.witness)] : null]),
    ...meaning.undecided.slice(0, 5).map((each) => ['?', 'undecided', each.exchange === null ? '' : ' from ' + exchangeText(each.exchange), each.destination ? ' to ' + each.destination.kind + ' ' + nameText(each.destination.name, 60) : '', ': ', each.reason]),
  ];
  if (meaning.undecided.length > 5) items.push(['?', 'and ' + (meaning.undecided.length - 5) + ' more undecided']);
  const verdicts = { same: 'No message is routed differently: proved for all keys and headers.', undecided: 'No message was found that is routed differently, and that there is none could not be proved.' };
  return [
    items.length ? el('ul', { class: 'rows changes' }, items.map(([sign, ...words]) => changeItem(sign, words))) : null,
    verdicts[meaning.verdict] ? el('p', {}, verdicts[meaning.verdict]) : null,
    settings.length ? el('details', { open: '' }, el('summary', {}, 'Settings in force'), linesOf(settings.slice(1).join('\n'))) : null,
    plan.length ? el('details', {}, el('summary', {}, 'Plan: how to get there without losing a message'), linesOf(plan.join('\n'))) : null,
  ].filter(Boolean);
}

function effectItem(effect) {
  const queue = partLink('queue', effect.queue);
  if (!effect.exchange) return [effect.change === 'gained' ? '+' : '-', 'the default exchange ', effect.change === 'gained' ? 'now reaches ' : 'no longer reaches ', queue];
  const messages = effect.messages.slice(0, 4).join(', ') + (effect.messages.length > 4 ? ' and more' : '');
  return [
    effect.change === 'gained' ? '+' : '-',
    queue,
    effect.change === 'gained' ? ' gains from ' : ' loses from ',
    exchangeText(effect.exchange),
    ': ',
    effect.exact ? '' : 'messages among those that match ',
    el('code', {}, messages),
    el('div', {}, 'such as ', messageButton(effect.witness)),
  ];
}

function changeItem(sign, words) {
  return el('li', { class: 'change ' + ({ '+': 'plus', '-': 'minus', '!': 'minus' }[sign] || 'other') }, el('span', { class: 'sign' }, sign), el('div', {}, words));
}
