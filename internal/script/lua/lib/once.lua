-- Remember what a request has done, or that it did nothing, so that it can be sent again.
-- A lane carries one request at a time, each with a higher number than the last.
local function recall(mark, number)
  local last, reply = string.match(redis.call('get', mark) or '', '^(%d+) (.*)$')
  last = tonumber(last) or 0
  if last == tonumber(number) then return reply end
  -- The lane has gone on without it: nobody waits for the answer.
  if last > tonumber(number) then return 'late' end
  return nil
end
local function remember(mark, number, reply, life)
  redis.call('set', mark, number .. ' ' .. reply, 'px', life)
  return reply
end
