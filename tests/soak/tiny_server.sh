#!/bin/sh
# The least MCP server there is, for a hundred thousand sessions: a shell starts in one millisecond,
# Python in ten. It answers initialize and the tool echo; it ends at the end of its input.

while IFS= read -r line; do
    case $line in
    *'"id":'*) ;;
    *) continue ;;
    esac
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        result='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}'
        ;;
    *)
        text=${line#*'"text":"'}
        result="\"content\":[{\"type\":\"text\",\"text\":\"${text%%\"*}\"}]"
        ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":{%s}}\n' "$id" "$result"
done
