import { useEffect, useState } from "react";

import { messages } from "@/messages";

import { contentUrl, pictureBlob, type Picture } from "./artifacts";
import styles from "./values.module.css";

interface PicturesProps {
  readonly sessionId: string;
  readonly pictures: readonly Picture[];
}

/** Pictures of a result. They come from the ledger's own artifacts, never from elsewhere. */
export function Pictures({ sessionId, pictures }: PicturesProps) {
  return (
    <ul className={styles.pictures} aria-label={messages.values.pictures}>
      {pictures.map((picture, index) => (
        <li key={picture.kind === "inline" ? index : picture.artifactId}>
          <OnePicture sessionId={sessionId} picture={picture} number={index + 1} />
        </li>
      ))}
    </ul>
  );
}

interface OnePictureProps {
  readonly sessionId: string;
  readonly picture: Picture;
  readonly number: number;
}

function OnePicture({ sessionId, picture, number }: OnePictureProps) {
  const [state, setState] = useState<{ url: string } | "failed" | null>(null);
  const key = picture.kind === "inline" ? picture.base64 : picture.artifactId;
  const kind = picture.kind;
  useEffect(() => {
    let url: string | null = null;
    let isGone = false;
    const wanted: Picture = kind === "inline" ? { kind, base64: key } : { kind, artifactId: key };
    pictureBlob(sessionId, wanted).then(
      (blob) => {
        if (isGone) return;
        url = URL.createObjectURL(blob);
        setState({ url });
      },
      () => {
        if (!isGone) setState("failed");
      },
    );
    return () => {
      isGone = true;
      if (url !== null) URL.revokeObjectURL(url);
    };
  }, [sessionId, kind, key]);
  const label = messages.values.picture(number);
  return (
    <>
      {state === "failed" ? <p className={styles.quiet}>{messages.values.pictureFailed}</p> : null}
      {state !== null && state !== "failed" ? (
        <img className={styles.picture} src={state.url} alt={label} />
      ) : null}
      {picture.kind === "artifact" ? (
        <a href={contentUrl(sessionId, picture.artifactId, true)} download>
          {messages.values.file(label)}
        </a>
      ) : null}
    </>
  );
}
