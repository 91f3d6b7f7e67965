-- The mark of a request series stores the reply to its last request, so that the request can be sent again.
-- A series has one request at a time, each with a higher number than the last.
local function recall(mark, number)
  local held = redis.call('get', mark)
  if not held then return nil end
  local last, reply = string.match(held, '^(%d+) (.*)$')
  if not last then error('the key ' .. mark .. ' does not hold the mark of a request: delete it', 0) end
  last = tonumber(last)
  if last == tonumber(number) then return reply end
  -- A later request has followed, so no client waits for this reply.
  if last > tonumber(number) then return 'late' end
  return nil
end
local function remember(mark, number, reply, life)
  redis.call('set', mark, number .. ' ' .. reply, 'px', life)
  -- The last key may be the mark of the previous request of this series, for another object. That request was sent once and was
  -- answered, so no copy of it can arrive. The mark is deleted after SET, because a server that is out of memory refuses SET only
  -- if the script has not written already.
  local spent = KEYS[#KEYS]
  if string.sub(spent, 1, 14) == 'holdfast:once:' and string.sub(spent, 1, #mark) ~= mark then redis.call('unlink', spent) end
  return reply
end
-- told returns the stored reply to a request, a number as text. The reply to a late request is 0.
local function told(mark, reply)
  if reply == 'late' then return '0' end
  if not string.find(reply, '^-?%d+$') or #reply > 20 then error('the key ' .. mark .. ' does not hold the mark of a request: delete it', 0) end
  return reply
end
