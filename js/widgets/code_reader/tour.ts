/* The guided tour of the code model, from outside in. Its words and numbers are those of what is shown. */

import { argmax, sum } from "../../kit/maths.ts";
import { count, show } from "../../kit/text.ts";
import type { Card } from "../../kit/tour.tsx";
import type { Data, State } from "./index.tsx";
import { likely, type Model } from "./maths.ts";
import { LEAST, nextText, sayHead, sayHeads, sayLikeliest, visible } from "./words.ts";

/** How many numbers the model consists of. */
export function numbersOf({ embedding, layers, lastNorm }: Model): number {
  const norm = ({ gain, bias }: Model["lastNorm"]) => gain.length + bias.length;
  const inLayers = layers.map(
    (one) =>
      norm(one.norm) + sum([one.distance, one.query, one.key, one.value, one.out].map((matrix) => matrix.length)),
  );
  return embedding.length + norm(lastNorm) + sum(inLayers);
}

export function cardsOf(state: State, data: Data): Card[] {
  const { model, names, now, at, looks } = data;
  const name = sayHead(state.head);
  const weights = looks(at);
  const place = argmax(weights);
  const layers = model.layers.length;
  const jobs = state.jobs.filter((job) => sayHead(job.head) === name);
  const arcs = weights.filter((weight) => weight >= LEAST);
  const next = likely(model, now.at(-1)!);
  const heads = new Set(state.jobs.map((job) => sayHead(job.head)));
  const says = (one: number) => `“${names[one]}”`;

  return [
    {
      part: "typing",
      title: "A text goes in",
      text: `The model reads a text and says what comes next. It consists of ${numbersOf(model).toLocaleString("en")} numbers that training found in files of Python, and it is computed here, as you type.`,
    },
    {
      part: "tokens",
      title: "Tokens",
      text: `It sees no letters: the text is cut into ${count(names.length, "token")} of the ${model.contents.length} that it knows, from ${says(0)} to ${says(names.length - 1)}. Chosen is ${says(at)}, token ${at}.`,
    },
    {
      part: "next",
      title: "A probability for every token",
      text: `Whatever it has read, every token gets a probability to come next. After ${says(at)} its likeliest token is ${sayLikeliest(model, now[at]!)}. The bars show the first few of ${next.length}.`,
    },
    {
      part: "buttons",
      title: "Writing",
      text: `To write, the likeliest token of all is put at the end, here “${visible(nextText(model, now.at(-1)!))}”, and the text is read again. Press “Write its likeliest token” several times.`,
    },
    {
      part: "heads",
      title: "Layers and heads",
      text: `In between are ${count(layers, "layer")} with ${model.heads} heads each. Each small map shows where one of these ${layers * model.heads} heads looks. The one in sight is head ${name}.`,
    },
    {
      part: "looks",
      title: "Where one head looks",
      text: `From ${says(at)}, head ${name} gives ${says(place)}, token ${place}, the weight ${show(weights[place]!)}, and all tokens up to the chosen one together ${show(sum([...weights]))}.`,
    },
    {
      part: "tokens",
      title: "The same on the text",
      text: `Colours and arcs are these weights: ${count(arcs.length, "arc")} from the chosen token, for all of ${LEAST} and more.`,
    },
    {
      part: "map",
      title: "The whole head at once",
      text: `${names.length} rows, one for each token that looks, and ${names.length} columns. The corner above the diagonal is empty, since no token sees what comes after it.`,
    },
    {
      part: "heads",
      title: "Jobs",
      text: `The chapter tests what heads do; ${count(heads.size, "head")} of the ${layers * model.heads} hold one. Head ${name} ${jobs.length ? `looks here: ${jobs.map((job) => job.looks_at).join("; ")}` : "holds none"}.`,
    },
    {
      part: "buttons",
      title: "Is it needed?",
      text: `A map shows where a head looks, not whether the model uses it. Take it away and see. ${state.heads_off.length ? `Without ${sayHeads(state.heads_off)}, ${count(data.harder.size, "token")} of this text ${data.harder.size === 1 ? "is" : "are"} less than half as likely.` : "No head is taken away yet."}`,
    },
  ];
}
