import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { showable } from "@/parts/untrusted";

import {
  clean,
  DEFAULT_RANGE,
  type Order,
  type Place,
  type Range,
  type ToolsSearch,
} from "./addresses";
import styles from "./tools.module.css";

const WORDS = messages.tools;

/** Search and filters of the list. They are in the address, so that a view can be shared. */
export function ToolFilters({ search, sources }: { search: ToolsSearch; sources: string[] }) {
  const navigate = useNavigate();
  const change = (changes: ToolsSearch) =>
    void navigate({ to: "/tools", search: clean({ ...search, ...changes }), replace: true });
  const isFiltered = Boolean(
    search.search || search.source || search.place || "withheld" in search,
  );
  return (
    <search className={styles.filters}>
      <SearchField value={search.search ?? ""} onChange={(words) => change({ search: words })} />
      <Choice
        label={WORDS.source}
        value={search.source ?? ""}
        options={[
          ["", WORDS.everySource],
          ...sources.map((each) => [each, showable(each)] as const),
        ]}
        onChange={(source) => change({ source })}
      />
      <Choice
        label={WORDS.place}
        value={search.place ?? ""}
        options={[["", WORDS.everyPlace], ...Object.entries(WORDS.places)]}
        onChange={(place) => change({ place: (place || undefined) as Place | undefined })}
      />
      <Choice
        label={WORDS.state}
        value={search.withheld === undefined ? "" : String(search.withheld)}
        options={[
          ["", WORDS.everyState],
          ["false", WORDS.served],
          ["true", WORDS.withheld],
        ]}
        onChange={(state) => change({ withheld: state === "" ? undefined : state === "true" })}
      />
      <Choice
        label={WORDS.range}
        value={search.range ?? DEFAULT_RANGE}
        options={Object.entries(WORDS.ranges)}
        onChange={(range) => change({ range: range as Range })}
      />
      <div className={styles.narrow}>
        <Choice
          label={WORDS.order}
          value={search.order ?? "name"}
          options={Object.entries(WORDS.orders)}
          onChange={(order) =>
            change({
              order: order as Order,
              descending: order === "name" || order === "source" ? undefined : true,
            })
          }
        />
      </div>
      {isFiltered && (
        <Button
          look="quiet"
          onClick={() =>
            change({ search: undefined, source: undefined, place: undefined, withheld: undefined })
          }
        >
          {WORDS.clear}
        </Button>
      )}
    </search>
  );
}

function SearchField({ value, onChange }: { value: string; onChange: (words: string) => void }) {
  const [words, setWords] = useState(value);
  const [shown, setShown] = useState(value);
  // The address changed by itself, such as by the back button: it wins over what was typed.
  if (value !== shown) {
    setShown(value);
    if (value !== words.trim()) setWords(value);
  }
  return (
    <Field label={WORDS.search}>
      {(ids) => (
        <input
          {...ids}
          type="search"
          value={words}
          placeholder={WORDS.searchHint}
          onChange={(event) => {
            setWords(event.target.value);
            onChange(event.target.value.trim());
          }}
        />
      )}
    </Field>
  );
}

function Choice({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}) {
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
          {options.map(([key, words]) => (
            <option key={key} value={key}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
