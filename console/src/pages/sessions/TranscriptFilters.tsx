import { ChevronDown, ChevronUp } from "lucide-react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { STATUS_FILTERS } from "@/parts/timeline/filter";
import { showable } from "@/parts/untrusted";
import { withFilter, type SessionSearch } from "@/pages/sessions/search";
import { Choice, Switch } from "@/pages/sessions/SessionFilters";
import styles from "@/pages/sessions/SessionPage.module.css";

interface TranscriptFiltersProps {
  search: SessionSearch;
  choices: { tools: string[]; places: string[] };
  matches: number;
  match: number;
  hasOlder: boolean;
  onChange: (search: SessionSearch) => void;
  onMatch: (step: 1 | -1) => void;
  onOlder: () => void;
}

/** The filters of a transcript, and the search in it. */
export function TranscriptFilters(props: TranscriptFiltersProps) {
  const { search, choices, onChange } = props;
  const set = <Name extends keyof SessionSearch>(
    name: Name,
    value: SessionSearch[Name] | undefined,
  ) => onChange(withFilter(search, name, value));
  return (
    <search className={styles.filters}>
      <Choice
        label={messages.session.tool}
        none={messages.session.anyTool}
        value={search.tool}
        choices={withCurrent(choices.tools, search.tool).map((tool) => [tool, showable(tool)])}
        onChange={(tool) => set("tool", tool)}
      />
      <Choice
        label={messages.session.status}
        none={messages.session.anyStatus}
        value={search.status}
        choices={STATUS_FILTERS.map((status) => [status, messages.session.statuses[status]])}
        onChange={(status) => set("status", status)}
      />
      {withCurrent(choices.places, search.place).length > 1 && (
        <Choice
          label={messages.session.place}
          none={messages.session.anyPlace}
          value={search.place}
          choices={withCurrent(choices.places, search.place).map((each) => [each, showable(each)])}
          onChange={(place) => set("place", place)}
        />
      )}
      <Find {...props} />
      <div className={styles.switch}>
        <Switch
          label={messages.session.housekeeping}
          value={search.all}
          onChange={(all) => set("all", all)}
        />
      </div>
    </search>
  );
}

/** The choices with the one of the address, which may be on an older page. */
function withCurrent(choices: string[], current: string | undefined): string[] {
  return current === undefined || choices.includes(current) ? choices : [...choices, current];
}

function Find({
  search,
  matches,
  match,
  hasOlder,
  onChange,
  onMatch,
  onOlder,
}: TranscriptFiltersProps) {
  const isFinding = search.find !== undefined;
  const position = matches === 0 ? 0 : match + 1;
  return (
    <div className={styles.find}>
      <Field label={messages.session.find}>
        {(ids) => (
          <input
            {...ids}
            type="search"
            value={search.find ?? ""}
            maxLength={200}
            onChange={(event) => onChange(withFilter(search, "find", event.target.value))}
            onKeyDown={(event) => {
              if (event.key === "Enter") onMatch(event.shiftKey ? -1 : 1);
            }}
          />
        )}
      </Field>
      {isFinding && (
        <div className={styles.matches}>
          <span role="status">{messages.session.matches(position, matches)}</span>
          <Button
            size="small"
            aria-label={messages.session.previousMatch}
            disabled={matches === 0}
            onClick={() => onMatch(-1)}
          >
            <ChevronUp aria-hidden size={14} />
          </Button>
          <Button
            size="small"
            aria-label={messages.session.nextMatch}
            disabled={matches === 0}
            onClick={() => onMatch(1)}
          >
            <ChevronDown aria-hidden size={14} />
          </Button>
          {hasOlder && (
            <Button size="small" onClick={onOlder}>
              {messages.session.findOlder}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}
