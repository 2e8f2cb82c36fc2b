import { useState, type FormEvent } from "react";

import type { Role } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Dialog, DialogActions } from "@/parts/Dialog";
import { Field } from "@/parts/Field";
import { wordsOf } from "@/parts/State";
import { IssuedToken } from "@/pages/people/IssuedToken";
import {
  createToken,
  LIFETIMES,
  usePeopleAction,
  type Lifetime,
  type TokenDraft,
} from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";

const ROLES: Role[] = ["caller", "approver", "auditor", "admin"];
const EMPTY: TokenDraft = {
  name: "",
  roles: [],
  groups: "",
  lifetime: "quarter",
  mayApproveOwn: false,
};

/** Makes a token for a person or a program, and shows it once. */
export function NewTokenDialog({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [draft, setDraft] = useState(EMPTY);
  const create = usePeopleAction(createToken);
  const close = () => {
    create.reset();
    setDraft(EMPTY);
    onClose();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(draft);
  };
  const isReady = draft.name.trim() !== "" && draft.roles.length > 0 && !create.isPending;
  return (
    <Dialog open={isOpen} onClose={close} title={messages.people.newTokenTitle}>
      {create.isSuccess ? (
        <IssuedToken issued={create.data} onDone={close} />
      ) : (
        <form className={styles.form} onSubmit={submit}>
          <DraftFields draft={draft} onChange={setDraft} />
          {create.isError && (
            <p role="alert" className={styles.fault}>
              {wordsOf(create.error)}
            </p>
          )}
          <DialogActions>
            <Button onClick={close}>{messages.parts.cancel}</Button>
            <Button type="submit" look="strong" disabled={!isReady}>
              {messages.people.make}
            </Button>
          </DialogActions>
        </form>
      )}
    </Dialog>
  );
}

interface DraftProps {
  draft: TokenDraft;
  onChange: (draft: TokenDraft) => void;
}

function DraftFields({ draft, onChange }: DraftProps) {
  return (
    <>
      <Field label={messages.people.name} hint={messages.people.nameHint}>
        {(ids) => (
          <input
            {...ids}
            value={draft.name}
            maxLength={100}
            autoComplete="off"
            onChange={(event) => onChange({ ...draft, name: event.target.value })}
          />
        )}
      </Field>
      <RoleChoice draft={draft} onChange={onChange} />
      <Field label={messages.people.groupsLabel} hint={messages.people.groupsHint}>
        {(ids) => (
          <input
            {...ids}
            value={draft.groups}
            onChange={(event) => onChange({ ...draft, groups: event.target.value })}
          />
        )}
      </Field>
      <Field label={messages.people.lifetime}>
        {(ids) => (
          <select
            {...ids}
            value={draft.lifetime}
            onChange={(event) => onChange({ ...draft, lifetime: event.target.value as Lifetime })}
          >
            {LIFETIMES.map((lifetime) => (
              <option key={lifetime} value={lifetime}>
                {messages.people.lifetimes[lifetime]}
              </option>
            ))}
          </select>
        )}
      </Field>
    </>
  );
}

function RoleChoice({ draft, onChange }: DraftProps) {
  const toggle = (role: Role, isChosen: boolean) =>
    onChange({
      ...draft,
      roles: isChosen ? [...draft.roles, role] : draft.roles.filter((each) => each !== role),
    });
  return (
    <fieldset className={styles.roles}>
      <legend>{messages.people.roles}</legend>
      {ROLES.map((role) => (
        <label key={role} className={styles.role}>
          <input
            type="checkbox"
            checked={draft.roles.includes(role)}
            onChange={(event) => toggle(role, event.target.checked)}
          />
          <span>
            <strong>{role}</strong> {messages.people.roleHints[role]}
          </span>
        </label>
      ))}
      <label className={styles.role}>
        <input
          type="checkbox"
          checked={draft.mayApproveOwn}
          onChange={(event) => onChange({ ...draft, mayApproveOwn: event.target.checked })}
        />
        <span>{messages.people.mayApproveOwnLabel}</span>
      </label>
    </fieldset>
  );
}
