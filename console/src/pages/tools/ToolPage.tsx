import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { EmptyState, ErrorState, LoadingState } from "@/parts/State";
import { Tabs } from "@/parts/Tabs";
import { showable, Text } from "@/parts/untrusted";

import { toolQuery, type CatalogTool } from "./catalog";
import { ExplainCard } from "./ExplainCard";
import { History } from "./History";
import { RunCard } from "./RunCard";
import { ToolFacts } from "./ToolFacts";
import { Examples, Identity, Schemas } from "./ToolDetails";
import styles from "./tool.module.css";

const WORDS = messages.tools;
const route = getRouteApi("/shell/tools/$name");

/** One tool: what it is, a form that runs it, what the policy says, and its calls. */
export function ToolPage() {
  const { name } = route.useParams();
  const { source, range } = route.useSearch();
  const query = useQuery(toolQuery(name, source, range));
  const isMissing = query.error instanceof ApiError && query.error.status === 404;
  return (
    <Page title={showable(name)} lead={<Link to="/tools">{WORDS.back}</Link>} wide>
      {query.isPending && <LoadingState />}
      {isMissing && <EmptyState title={WORDS.missing}>{query.error?.message}</EmptyState>}
      {query.isError && !isMissing && query.data === undefined && (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data !== undefined && <Tool key={query.data.entry.id} tool={query.data} />}
    </Page>
  );
}

function Tool({ tool }: { tool: CatalogTool }) {
  const me = useMe();
  const [values, setValues] = useState<unknown>({});
  const mayRun = can(me, "caller");
  const namesakes = tool.namesakes.map((each) => showable(each)).join(", ");
  return (
    <>
      <p className={styles.description}>
        {tool.description === "" ? WORDS.noDescription : <Text text={tool.description} lines />}
      </p>
      {tool.entry.withheld != null && (
        <p className={styles.notice}>
          <strong>{WORDS.why}:</strong> <Text text={tool.entry.withheld} />
        </p>
      )}
      {namesakes !== "" && <p className={styles.soft}>{WORDS.namesakes(namesakes)}</p>}
      <div className={styles.columns}>
        <div className={styles.main}>
          {mayRun ? (
            <RunCard tool={tool} values={values} onValues={setValues} />
          ) : (
            <ExplainCard tool={tool} values={values} onValues={setValues} />
          )}
        </div>
        <ToolFacts tool={tool} />
      </div>
      <More tool={tool} onExample={mayRun ? setValues : undefined} />
    </>
  );
}

function More({
  tool,
  onExample,
}: {
  tool: CatalogTool;
  onExample: ((values: unknown) => void) | undefined;
}) {
  const tabs = [
    { id: "history", label: WORDS.history, content: <History entry={tool.entry} /> },
    { id: "schema", label: WORDS.schema, content: <Schemas tool={tool} /> },
    {
      id: "examples",
      label: WORDS.examples,
      content: <Examples tool={tool} onUse={onExample} />,
    },
    { id: "identity", label: WORDS.identity, content: <Identity tool={tool} /> },
  ];
  return <Tabs label={WORDS.views} tabs={tabs} />;
}
