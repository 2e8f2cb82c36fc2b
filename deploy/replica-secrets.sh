#!/bin/sh
# Make the secrets of compose.replicas.yaml, once: deploy/replica-secrets.sh FOLDER
# The containers run as user 10001, who has to be able to read two of them, and nobody else.
set -eu
folder=${1:?the folder of the secrets}
umask 077
mkdir "$folder"
secret() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
secret > "$folder/store-key"
secret | tr -d '=' > "$folder/database-password"
printf 'postgres:5432:toolcrib:toolcrib:%s\n' "$(cat "$folder/database-password")" > "$folder/pgpass"
if [ "$(id -u)" = 0 ]; then
    chown 10001:10001 "$folder/store-key" "$folder/pgpass"
else
    echo "now run: sudo chown 10001:10001 $folder/store-key $folder/pgpass" >&2
fi
