// The daemon as a story uses it: events in, metrics out, and a driver that
// kills it and starts it again.
import assert from 'node:assert/strict';
import readline from 'node:readline';

const patience = 30_000;

export const daemon = {
  url: required('ATTEND_URL'),
  token: required('ATTEND_TOKEN'),
  binary: required('ATTEND_BINARY'),
  get headers() { return { Authorization: `Bearer ${this.token}` }; },

  async fetch(path, init = {}) {
    const answer = await fetch(this.url + path, { ...init, headers: { ...this.headers, ...init.headers } });
    assert.ok(answer.ok, `${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`);
    return answer;
  },

  /** push sends one event per text, each of which is decided at once, and returns the decisions' ids when they are made. */
  async push(scope, ...texts) {
    const lines = texts.map((text) => JSON.stringify({ scope, name: 'message.created', id: `${scope}/${text}`, text }));
    const { cursor } = await (await this.fetch('/v1/decisions?after=now')).json();
    const answer = await this.fetch('/v1/ingest', {
      method: 'POST', body: lines.join('\n'), headers: { 'Content-Type': 'application/x-ndjson' },
    });
    assert.equal((await answer.json()).accepted, texts.length);
    return until(`${texts.length} decisions in ${scope}`, async () => {
      const query = new URLSearchParams({ scope, after: cursor });
      const { decisions } = await (await this.fetch(`/v1/decisions?${query}`)).json();
      assert.ok(decisions.length <= texts.length);
      return decisions.length === texts.length && decisions.map((d) => d.id);
    });
  },

  async metric(name) {
    const text = await (await this.fetch('/metrics')).text();
    const line = text.split('\n').find((l) => l.startsWith(`${name} `));
    assert.ok(line, `no metric ${name}`);
    return Number(line.split(' ')[1]);
  },

  /** becomes waits until a metric has a value, and returns how many ms that took. */
  async becomes(name, value) {
    const began = performance.now();
    await until(`${name} is ${value}`, async () => (await this.metric(name)) === value, 1);
    return performance.now() - began;
  },

  /** crash is kill -9 and a new start on the same file, at the same address. */
  crash: () => drive('crash'),
  /** kill is kill -9 alone. */
  kill: () => drive('kill'),
  /** start starts it again. */
  start: () => drive('start'),
  /** terminate is SIGTERM; it returns when the daemon has ended well. */
  terminate: () => drive('terminate'),
};

function required(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set`);
  return value;
}

// The driver reads a word a line from stdout and answers with a line on stdin.
const driver = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function drive(word) {
  process.stdout.write(`${word}\n`);
  const { value } = await driver.next();
  assert.equal(value, 'done', `the driver could not ${word}: ${value}`);
}

/** within is a promise that must come to an end. */
export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`${what}: still not over`)), patience); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** until polls until a condition gives something true, and returns that. */
export async function until(what, condition, every = 5) {
  for (const end = performance.now() + patience; ;) {
    const got = await condition();
    if (got) return got;
    assert.ok(performance.now() < end, `it never came to be that ${what}`);
    await new Promise((resolve) => { setTimeout(resolve, every); });
  }
}
