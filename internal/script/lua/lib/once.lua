-- Remember what a request has done, or that it did nothing, so that it can be sent again.
-- A lane carries one request at a time, each with a higher number than the last.
local function recall(mark, number)
  local held = redis.call('get', mark)
  if not held then return nil end
  local last, reply = string.match(held, '^(%d+) (.*)$')
  if not last then error('the key ' .. mark .. ' does not hold the mark of a request: delete it', 0) end
  last = tonumber(last)
  if last == tonumber(number) then return reply end
  -- The lane has gone on without it: nobody waits for the answer.
  if last > tonumber(number) then return 'late' end
  return nil
end
local function remember(mark, number, reply, life)
  redis.call('set', mark, number .. ' ' .. reply, 'px', life)
  -- The last key may be the mark of the lane's last request, at another object: it was sent once and has been answered, so
  -- no copy of it can come. Not before SET, which a server that is out of memory refuses unless the script has written.
  local spent = KEYS[#KEYS]
  if string.sub(spent, 1, 14) == 'holdfast:once:' and string.sub(spent, 1, #mark) ~= mark then redis.call('unlink', spent) end
  return reply
end
-- told returns the number that a request was answered with, as text. A late one was answered with 0.
local function told(mark, reply)
  if reply == 'late' then return '0' end
  if not string.find(reply, '^-?%d+$') or #reply > 20 then error('the key ' .. mark .. ' does not hold the mark of a request: delete it', 0) end
  return reply
end
