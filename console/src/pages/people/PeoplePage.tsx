import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { UserPlus, Users } from "lucide-react";
import { useState } from "react";

import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import { NewTokenDialog } from "@/pages/people/NewTokenDialog";
import { peopleQuery, type Person } from "@/pages/people/people";
import styles from "@/pages/people/people.module.css";
import { PersonCard } from "@/pages/people/PersonCard";

const route = getRouteApi("/shell/people");

/** Who uses this server: their tokens, their sign-ins, and what they have done. For admins. */
export function PeoplePage() {
  const isAdmin = can(useMe());
  const [isMaking, setIsMaking] = useState(false);
  if (!isAdmin) {
    return (
      <Page title={messages.people.title}>
        <EmptyState title={messages.parts.forbidden} icon={<Users aria-hidden size={28} />}>
          <p>{messages.people.forAdmins}</p>
        </EmptyState>
      </Page>
    );
  }
  return (
    <Page
      title={messages.people.title}
      lead={messages.people.lead}
      actions={
        <Button look="strong" onClick={() => setIsMaking(true)}>
          <UserPlus aria-hidden size={16} />
          {messages.people.newToken}
        </Button>
      }
    >
      <Search />
      <PeopleList />
      <NewTokenDialog isOpen={isMaking} onClose={() => setIsMaking(false)} />
    </Page>
  );
}

function Search() {
  const { search = "" } = route.useSearch();
  const navigate = useNavigate();
  const change = (value: string) =>
    void navigate({ to: "/people", search: value === "" ? {} : { search: value }, replace: true });
  return (
    <div className={styles.search}>
      <Field label={messages.people.search}>
        {(ids) => (
          <input
            {...ids}
            type="search"
            value={search}
            onChange={(event) => change(event.target.value)}
          />
        )}
      </Field>
    </div>
  );
}

function PeopleList() {
  const { search = "" } = route.useSearch();
  const people = useInfiniteQuery(peopleQuery(search));
  if (people.isPending) return <LoadingState />;
  if (people.isError) {
    return <ErrorState error={people.error} onRetry={() => void people.refetch()} />;
  }
  const listed: Person[] = people.data.pages.flatMap((page) => page.people);
  const total = people.data.pages[0]?.total ?? 0;
  if (listed.length === 0) {
    return (
      <EmptyState title={messages.people.nobody} icon={<Users aria-hidden size={28} />}>
        <p>{messages.people.nobodyHint}</p>
      </EmptyState>
    );
  }
  return (
    <>
      <p role="status" className={styles.total}>
        {messages.people.total(total)}
      </p>
      <ul className={styles.list}>
        {listed.map((person) => (
          <li key={person.name}>
            <PersonCard person={person} />
          </li>
        ))}
      </ul>
      {people.hasNextPage && (
        <Button onClick={() => void people.fetchNextPage()} disabled={people.isFetchingNextPage}>
          {messages.people.more}
        </Button>
      )}
    </>
  );
}
